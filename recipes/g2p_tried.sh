#!/bin/sh
# Compare settings for pronunciations on one word in ten, none of which is in the test set of g2p.sh.
# REGARD_DATA=data recipes/g2p_tried.sh [FOLDER [OPTIONS OF regard compare, such as --jobs 4]]
set -e
out=${1:-models/g2p-tried}
[ $# -gt 0 ] && shift
here=$(dirname "$0")
[ -e "$out/data/test.tsv" ] || python3 "$here/g2p_split.py" --develop "${REGARD_DATA:?the folder that holds g2p}/g2p/g014b2b.train.gz" "$out/data"
regard compare --variants "$here/g2p_tried.toml" --out "$out" \
  --data "$out/data/train.tsv" --valid "$out/data/valid.tsv" --test "$out/data/test.tsv" "$@"
