#!/bin/sh
# German–English word alignment by attention, trained on 200,000 pairs of Europarl, judged by 508 gold alignments.
# Expected error rates, time and hardware: recipes/README.md.
# REGARD_DATA=data recipes/alignments.sh [FOLDER [OPTIONS OF regard compare, such as --jobs 5]]
# Luong's rows are read off as they are. The Transformer's looks are read off one step later (--shift) from its third
# layer of four, in both directions, merged; those alignments of the training text then guide a last model.
set -e
out=${1:-models/alignments}
[ $# -gt 0 ] && shift
here=$(dirname "$0")
data=${REGARD_DATA:?the folder that holds europarl-en-de and alignments}
layer=${LAYER:-2}
python3 "$here/europarl_prepare.py" "$data/europarl-en-de" "$data/alignments" "$out/data"
for direction in de-en en-de; do
  from=${direction%-*} to=${direction#*-}
  regard compare --variants "$here/alignments.toml" --out "$out/$direction" \
    --source "$out/data/train.$from" --target "$out/data/train.$to" \
    --valid-source "$out/data/dev.$from" --valid-target "$out/data/dev.$to" \
    --test-source "$out/data/gold.$from" --test-target "$out/data/gold.$to" \
    --test-alignment "$out/data/gold.$direction.talp" "$@"
done
gold="--source $out/data/gold.de --target $out/data/gold.en --alignments $out/data/gold.de-en.talp"
there=$out/de-en/models/transformer back=$out/en-de/models/transformer
echo "Transformer, layer $layer, the step after, both directions merged:"
# shellcheck disable=SC2086 (the words of $gold are options)
regard evaluate "$there" $gold --beam 1 --layer "$layer" --shift --reverse-model "$back"
train="--source $out/data/train.de --target $out/data/train.en"
# shellcheck disable=SC2086
regard align "$there" $train --layer "$layer" --shift --reverse-model "$back" --batch 256 > "$out/data/train.links"
# shellcheck disable=SC2086
regard train --from "$there" $train --alignments "$out/data/train.links" \
  --valid-source "$out/data/dev.de" --valid-target "$out/data/dev.en" --out "$out/guided" \
  --set training.guided=1.0 --set "training.guided_layer=$layer" --set training.guided_head=0 \
  --set training.steps=3000 --set training.validate_every=1000 --set training.learning_rate=5e-4
echo "Guided by these:"
# shellcheck disable=SC2086
regard evaluate "$out/guided" $gold --beam 1 --layer "$layer" --head 0
