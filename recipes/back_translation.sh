#!/bin/sh
# Back-translation on Multi30k, English to German, raw text: half of the pairs lose their source. One report compares
# three systems: trained on the other half, on that half plus back-translations of the lost sources, and on all pairs.
# REGARD_DATA=data recipes/back_translation.sh [FOLDER [OPTIONS OF regard compare, such as --jobs 1]]
# STEPS: training steps of every model, including the one that back-translates (2500). PRESET: the system. PAIRS: the
# number of pairs to use (all).
set -e
out=${1:-models/back-translation}
[ $# -gt 0 ] && shift
data=${REGARD_DATA:?the folder that holds multi30k}/multi30k
steps=${STEPS:-2500}
preset=${PRESET:-transformer2017-tiny}
all=$out/data/all.jsonl half=$out/data/half.jsonl reversed=$out/data/half.de-en.jsonl
lost=$out/data/lost.de made=$out/data/back_translated.tsv
mkdir -p "$out/data"

if [ ! -e "$lost" ]; then
  regard data "$data/train.en.gz" "$data/train.de.gz" --json ${PAIRS:+--size "$PAIRS"} > "$all"
  awk 'NR % 2' "$all" > "$half"
  regard data "$half" --json --reverse > "$reversed"
  awk 'NR % 2 == 0' "$all" | python3 -c 'import json, sys
for line in sys.stdin:
    print(*json.loads(line)["target"].split())' > "$lost.part"
  mv "$lost.part" "$lost"
fi

if [ ! -e "$made" ]; then
  begin="--preset $preset"
  [ -e "$out/backward/config.toml" ] && begin=--resume
  regard train $begin --out "$out/backward" --data "$reversed" \
    --valid-source "$data/val.de.gz" --valid-target "$data/val.en.gz" --steps "$steps" --epochs 1000000
  regard translate "$out/backward" --pairs --reverse --tag '<bt>' < "$lost" > "$made.part"
  mv "$made.part" "$made"
fi

cat > "$out/variants.toml" <<EOF
steps = $steps

[[variant]]
name = "half"
preset = "$preset"
set = ['data.train=["$half"]']

[[variant]]
name = "half-and-back-translated"
preset = "$preset"
set = ['data.mixed=["$half", "$made"]']

[[variant]]
name = "all"
preset = "$preset"
set = ['data.train=["$all"]']
EOF
regard compare --variants "$out/variants.toml" --out "$out" --jobs 3 \
  --valid-source "$data/val.en.gz" --valid-target "$data/val.de.gz" \
  --test-source "$data/test_2016_flickr.en.gz" --test-target "$data/test_2016_flickr.de.gz" "$@"
