#!/bin/sh
# English words to phonemes, trained on nine tenths of the words. Expected scores, time and hardware: recipes/README.md.
# REGARD_DATA=data recipes/g2p.sh [FOLDER [OPTIONS OF regard compare, such as --jobs 3]]
# WER is the sequence error rate in the report: a word is correct if the output is any of its pronunciations.
set -e
out=${1:-models/g2p}
[ $# -gt 0 ] && shift
here=$(dirname "$0")
[ -e "$out/data/test.tsv" ] || python3 "$here/g2p_split.py" "${REGARD_DATA:?the folder that holds g2p}/g2p/g014b2b.train.gz" "$out/data"
regard compare --variants "$here/g2p.toml" --out "$out" \
  --data "$out/data/train.tsv" --valid "$out/data/valid.tsv" --test "$out/data/test.tsv" "$@"
