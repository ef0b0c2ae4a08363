#!/bin/sh
# The hybrid on Multi30k, English to German, and language models of its German side. Expected: recipes/README.md.
# REGARD_DATA=data recipes/language.sh [FOLDER [OPTIONS OF regard compare, such as --jobs 3]]
set -e
out=${1:-models/language}
[ $# -gt 0 ] && shift
data=${REGARD_DATA:?the folder that holds multi30k/tok}/multi30k/tok
regard compare --variants "$(dirname "$0")/language.toml" --out "$out" \
  --source "$data/train.lc.norm.tok.en.gz" --target "$data/train.lc.norm.tok.de.gz" \
  --valid-source "$data/val.lc.norm.tok.en.gz" --valid-target "$data/val.lc.norm.tok.de.gz" \
  --test-source "$data/test_2016_flickr.lc.norm.tok.en.gz" --test-target "$data/test_2016_flickr.lc.norm.tok.de.gz" \
  "$@"
