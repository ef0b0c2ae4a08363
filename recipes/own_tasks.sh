#!/bin/sh
# What a stranger's own data gives without any settings: recipes/own_tasks.py says how; docs/results.md what to expect.
# REGARD_DATA=data recipes/own_tasks.sh [FOLDER [OPTIONS, such as --jobs 8 --seeds 1 --tasks scan-simple]]
set -e
[ $# -gt 0 ] || set -- models/own-tasks
exec python3 "$(dirname "$0")/own_tasks.py" "$@"
