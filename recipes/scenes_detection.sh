#!/bin/sh
# Boxes and masks of the things in the embedded scenes. What to expect: recipes/README.md.
# recipes/scenes_detection.sh [FOLDER [OPTIONS OF regard compare, such as --seeds 1,2,3 --jobs 2]]
set -e
out=${1:-models/scenes-detection}
[ $# -gt 0 ] && shift
regard compare --variants "$(dirname "$0")/scenes_detection.toml" --out "$out" "$@"
