#!/bin/sh
# Multi30k, English to French, recurrent, three seeds. Expected scores, time and hardware: recipes/README.md.
# REGARD_DATA=data recipes/multi30k_fr_recurrent.sh [FOLDER [OPTIONS OF regard compare, such as --jobs 3]]
out=${1:-models/multi30k-fr-recurrent}
[ $# -gt 0 ] && shift
# Without R-Drop, which has not been tried here, and over fewer steps.
exec sh "$(dirname "$0")/multi30k.sh" fr recurrent "$out" --steps 3600 --set training.r_drop=0 "$@"
