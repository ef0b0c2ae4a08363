#!/bin/sh
# German–English word alignment by attention, trained on 200,000 pairs of Europarl, judged by 508 gold alignments.
# Expected error rates, time and hardware: recipes/README.md.
# REGARD_DATA=data recipes/alignments.sh [FOLDER [OPTIONS OF regard compare, such as --jobs 2]]
# Luong's looks are read off as they are, and those of both directions, merged, align the training text: that guides one
# of four heads of a Luong model that is trained anew. The Transformer's are read off one step later (--shift) from its
# lowest layer; what they make of the training text guides Luong's once more, and the Transformers, which are trained on.
set -e
out=${1:-models/alignments}
[ $# -gt 0 ] && shift
here=$(dirname "$0")
data=${REGARD_DATA:?the folder that holds europarl-en-de and alignments}
layer=${LAYER:-0} guided_layer=${GUIDED_LAYER:-2}
python3 "$here/europarl_prepare.py" "$data/europarl-en-de" "$data/alignments" "$out/data"
learn() { # direction, variants, folder, then options of regard compare
  direction=$1 from=${1%-*} to=${1#*-} variants=$2 folder=$3
  shift 3
  regard compare --variants "$here/$variants" --out "$folder" \
    --source "$out/data/train.$from" --target "$out/data/train.$to" \
    --valid-source "$out/data/dev.$from" --valid-target "$out/data/dev.$to" \
    --test-source "$out/data/gold.$from" --test-target "$out/data/gold.$to" \
    --test-alignment "$out/data/gold.$direction.talp" "$@"
}
judge() { # what is said of it, two models, then options of regard evaluate
  echo "$1, German to English:"
  first=$2 second=$3
  shift 3
  regard evaluate "$first" --source "$out/data/gold.de" --target "$out/data/gold.en" \
    --alignments "$out/data/gold.de-en.talp" --beam 1 "$@"
  echo "Merged with English to German:"
  regard evaluate "$first" --source "$out/data/gold.de" --target "$out/data/gold.en" \
    --alignments "$out/data/gold.de-en.talp" --beam 1 --reverse-model "$second" "$@"
}
link() { # name, two models, then options of regard align: the training text, aligned by both, in both directions
  links=$out/data/$1 first=$2 second=$3
  shift 3
  [ -e "$links.en-de.links" ] && return
  regard align "$first" --source "$out/data/train.de" --target "$out/data/train.en" --reverse-model "$second" \
    --batch 256 "$@" > "$links.de-en.links"
  sed -E 's/([0-9]+)-([0-9]+)/\2-\1/g' "$links.de-en.links" > "$links.part"
  mv "$links.part" "$links.en-de.links"
}
for direction in de-en en-de; do
  learn $direction alignments.toml "$out/$direction" "$@"
done
there=$out/de-en/models/global-dot back=$out/en-de/models/global-dot
judge "Luong's global dot" "$there" "$back"
link luong "$there" "$back"
there=$out/de-en/models/transformer back=$out/en-de/models/transformer
judge "Transformer, layer $layer, the step after" "$there" "$back" --layer "$layer" --shift
link transformer "$there" "$back" --layer "$layer" --shift
for teacher in luong transformer; do
  for direction in de-en en-de; do
    learn $direction alignments_guided.toml "$out/by-$teacher-$direction" \
      --alignments "$out/data/$teacher.$direction.links" "$@"
  done
  judge "Luong's, four heads, the first guided by links of $teacher, the step after" \
    "$out/by-$teacher-de-en/models/four-heads" "$out/by-$teacher-en-de/models/four-heads" --head 0 --shift
done
for direction in de-en en-de; do
  from=${direction%-*} to=${direction#*-}
  [ -e "$out/guided-$direction.done" ] && continue
  regard train --from "$out/$direction/models/transformer" --out "$out/guided-$direction" --overwrite \
    --source "$out/data/train.$from" --target "$out/data/train.$to" \
    --alignments "$out/data/transformer.$direction.links" \
    --valid-source "$out/data/dev.$from" --valid-target "$out/data/dev.$to" \
    --set training.guided=1.0 --set "training.guided_layer=$guided_layer" --set training.guided_head=0 \
    --set training.guided_shift=true \
    --set training.steps=2500 --set training.validate_every=2500 --set training.learning_rate=5e-4 \
    --set training.warmup=200
  touch "$out/guided-$direction.done"
done
judge "Transformer, guided, the step after" "$out/guided-de-en" "$out/guided-en-de" --layer "$guided_layer" --head 0 --shift
