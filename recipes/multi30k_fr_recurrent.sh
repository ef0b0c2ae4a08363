#!/bin/sh
# Multi30k, English to French, recurrent, three seeds. Expected scores, time and hardware: recipes/README.md.
# REGARD_DATA=data recipes/multi30k_fr_recurrent.sh [FOLDER [OPTIONS OF regard compare, such as --jobs 3]]
out=${1:-models/multi30k-fr-recurrent}
[ $# -gt 0 ] && shift
exec sh "$(dirname "$0")/multi30k.sh" fr recurrent_fr "$out" "$@"
