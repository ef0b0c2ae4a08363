#!/bin/sh
# Questions about the embedded scenes, with attention and without it. What to expect: recipes/README.md.
# recipes/scenes_questions.sh [FOLDER [OPTIONS OF regard compare, such as --seeds 1,2,3 --jobs 2]]
set -e
out=${1:-models/scenes-questions}
[ $# -gt 0 ] && shift
regard compare --variants "$(dirname "$0")/scenes_questions.toml" --out "$out" "$@"
