#!/bin/sh
# Captions of the embedded scenes and where the models look, soft and hard. What to expect: recipes/README.md.
# recipes/scenes_captions.sh [FOLDER [OPTIONS OF regard compare, such as --seeds 1,2,3 --jobs 3]]
set -e
out=${1:-models/scenes-captions}
[ $# -gt 0 ] && shift
regard compare --variants "$(dirname "$0")/scenes_captions.toml" --out "$out" "$@"
