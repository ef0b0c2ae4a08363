#!/bin/sh
# Captions of photographs, Flickr8k: chosen on a part of train, reported on dev. What to expect: recipes/README.md.
# REGARD_DATA=data recipes/flickr8k.sh [FOLDER [OPTIONS OF regard compare, such as --seeds 1,2,3 --jobs 4]]
# POOLED=256 puts as many principal components of the whole picture's features beside those of each region.
set -e
out=${1:-models/flickr8k}
[ $# -gt 0 ] && shift
here=$(dirname "$0")
data="$out/data"
python3 "$here/flickr8k_split.py" "${REGARD_DATA:?the folder that holds flickr8k}/flickr8k" "$data" --pooled "${POOLED:-0}"
regard compare --variants "$here/flickr8k.toml" --out "$out" \
  --data "$data/train.npz" --valid "$data/valid.npz" --test "$data/dev.npz" "$@"
