#!/bin/sh
# German–English word alignment by attention, trained on 200,000 pairs of Europarl, judged by 508 gold alignments.
# Expected error rates, time and hardware: recipes/README.md.
# REGARD_DATA=data recipes/alignments.sh [FOLDER [OPTIONS OF regard compare, such as --jobs 5]]
# Luong's rows are read off as they are. The Transformer's looks are read off one step later (--shift) from its lowest
# layer, in both directions, merged; those alignments of the training text then guide the look one step later of a model
# of each direction.
set -e
out=${1:-models/alignments}
[ $# -gt 0 ] && shift
here=$(dirname "$0")
data=${REGARD_DATA:?the folder that holds europarl-en-de and alignments}
layer=${LAYER:-0} guided_layer=${GUIDED_LAYER:-2}
python3 "$here/europarl_prepare.py" "$data/europarl-en-de" "$data/alignments" "$out/data"
for direction in de-en en-de; do
  from=${direction%-*} to=${direction#*-}
  regard compare --variants "$here/alignments.toml" --out "$out/$direction" \
    --source "$out/data/train.$from" --target "$out/data/train.$to" \
    --valid-source "$out/data/dev.$from" --valid-target "$out/data/dev.$to" \
    --test-source "$out/data/gold.$from" --test-target "$out/data/gold.$to" \
    --test-alignment "$out/data/gold.$direction.talp" "$@"
done
there=$out/de-en/models/transformer back=$out/en-de/models/transformer
judge() { # the arguments of regard evaluate
  regard evaluate "$@" --source "$out/data/gold.de" --target "$out/data/gold.en" \
    --alignments "$out/data/gold.de-en.talp" --beam 1
}
echo "Transformer, layer $layer, the step after, both directions merged:"
judge "$there" --layer "$layer" --shift --reverse-model "$back"
regard align "$there" --source "$out/data/train.de" --target "$out/data/train.en" --layer "$layer" --shift \
  --reverse-model "$back" --batch 256 > "$out/data/train.de-en.links"
sed -E 's/([0-9]+)-([0-9]+)/\2-\1/g' "$out/data/train.de-en.links" > "$out/data/train.en-de.links"
for direction in de-en en-de; do
  from=${direction%-*} to=${direction#*-}
  regard train --from "$out/$direction/models/transformer" --out "$out/guided-$direction" \
    --source "$out/data/train.$from" --target "$out/data/train.$to" --alignments "$out/data/train.$direction.links" \
    --valid-source "$out/data/dev.$from" --valid-target "$out/data/dev.$to" \
    --set training.guided=1.0 --set "training.guided_layer=$guided_layer" --set training.guided_head=0 \
    --set training.guided_shift=true \
    --set training.steps=2500 --set training.validate_every=2500 --set training.learning_rate=5e-4 \
    --set training.warmup=200
done
echo "Guided by these, one direction:"
judge "$out/guided-de-en" --layer "$guided_layer" --head 0 --shift
echo "Guided by these, both directions merged:"
judge "$out/guided-de-en" --layer "$guided_layer" --head 0 --shift --reverse-model "$out/guided-en-de"
