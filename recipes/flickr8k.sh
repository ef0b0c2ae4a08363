#!/bin/sh
# Captions of photographs, Flickr8k: trained on most of train, reported on dev. What to expect: recipes/README.md.
# REGARD_DATA=data recipes/flickr8k.sh [FOLDER [OPTIONS OF regard compare, such as --seeds 1,2,3 --jobs 4]]
# POOLED=256 appends that many principal components of the whole picture's features to those of each region.
# FOLDER/pictures gets the attention of the soft and hard models over the thumbnails of three pictures of dev.
set -e
out=${1:-models/flickr8k}
[ $# -gt 0 ] && shift
here=$(dirname "$0")
data="$out/data"
python3 "$here/flickr8k_split.py" "${REGARD_DATA:?the folder that holds flickr8k}/flickr8k" "$data" --pooled "${POOLED:-0}"
regard compare --variants "$here/flickr8k.toml" --out "$out" \
  --data "$data/train.npz" --valid "$data/valid.npz" --test "$data/dev.npz" "$@"

mkdir -p "$out/pictures"
for model in "$out"/models/soft "$out"/models/soft-seed* "$out"/models/hard "$out"/models/hard-seed*; do
  [ -f "$model/model.safetensors" ] || continue # several seeds have folders of their own
  for name in 1178705300_c224d9a4f1 1679557684_50a206e4a9 2402793046_3385554e81; do
    regard attend "$model" "$name.jpg" --features "$data/dev.npz" \
      --out "$out/pictures/$(basename "$model")-$name.png"
  done
done
