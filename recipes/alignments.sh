#!/bin/sh
# German–English word alignment by attention, trained on 200,000 pairs of Europarl, judged by 508 gold alignments.
# Expected error rates, time and hardware: recipes/README.md.
# REGARD_DATA=data recipes/alignments.sh [FOLDER [OPTIONS OF regard compare, such as --jobs 2; one seed]]
# Alignments are read off Luong's attention directly and by the posterior (--posterior), off the Transformer's one step
# later (--shift). The symmetrised posterior alignments of the training text by Luong's global dot models then guide the
# attention of newly trained models: Luong's single head, one of four heads, and one head of a Transformer. Finally, the
# alignments of these Transformers guide Luong's models once more.
set -e
out=${1:-models/alignments}
[ $# -gt 0 ] && shift
here=$(dirname "$0")
data=${REGARD_DATA:?the folder that holds europarl-en-de and alignments}
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
judge() { # what is said of it, what the folders start with, a variant, then options of regard evaluate
  said=$1 there=$out/$2de-en/models/$3 back=$out/$2en-de/models/$3
  shift 3
  echo "$said, German to English:"
  regard evaluate "$there" --source "$out/data/gold.de" --target "$out/data/gold.en" \
    --alignments "$out/data/gold.de-en.talp" --beam 1 "$@"
  echo "English to German:"
  regard evaluate "$back" --source "$out/data/gold.en" --target "$out/data/gold.de" \
    --alignments "$out/data/gold.en-de.talp" --beam 1 "$@"
  echo "Both merged:"
  regard evaluate "$there" --source "$out/data/gold.de" --target "$out/data/gold.en" \
    --alignments "$out/data/gold.de-en.talp" --beam 1 --reverse-model "$back" "$@"
}
link() { # what the links are called, what the folders start with, a variant, then options of regard align
  links=$out/data/$1 there=$out/$2de-en/models/$3 back=$out/$2en-de/models/$3
  shift 3
  # Made once; who trains the teachers anew removes them.
  [ -e "$links.en-de" ] && return
  # On a GPU products of 10 bits are several times as fast; links that guide need no more.
  TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1 regard align "$there" --reverse-model "$back" --batch 256 "$@" \
    --source "$out/data/train.de" --target "$out/data/train.en" > "$links.de-en"
  sed -E 's/([0-9]+)-([0-9]+)/\2-\1/g' "$links.de-en" > "$links.part"
  mv "$links.part" "$links.en-de"
}
guide() { # what the links are called, what the folders of who learns from them start with, then options of regard compare
  links=$out/data/$1 pupils=$2
  shift 2
  for direction in de-en en-de; do
    learn $direction alignments_guided.toml "$out/$pupils$direction" --alignments "$links.$direction" "$@"
  done
  judge "Luong's, one look, guided" $pupils one-look
  judge "Luong's, one look, guided, with hindsight" $pupils one-look --posterior
  judge "Luong's, four heads, the first guided, the step after" $pupils four-heads --head 0 --shift
}
for kind in luong transformer; do
  for direction in de-en en-de; do
    learn $direction alignments_$kind.toml "$out/$kind-$direction" "$@"
  done
done
for variant in global-dot global-general local-m-general local-p-general; do
  judge "Luong's $variant" luong- $variant
  judge "Luong's $variant, with hindsight" luong- $variant --posterior
done
judge "Transformer, lowest layer, the step after" transformer- transformer --layer 0 --shift
link luong luong- global-dot --posterior
guide luong guided- "$@"
for direction in de-en en-de; do
  learn $direction alignments_transformer.toml "$out/teacher-$direction" --alignments "$out/data/luong.$direction" \
    --set training.guided=1 --set training.guided_layer=2 --set training.guided_head=0 --set training.guided_shift=true "$@"
done
judge "Transformer, guided, the step after" teacher- transformer --layer 2 --head 0 --shift
link transformers teacher- transformer --layer 2 --head 0 --shift
guide transformers again- "$@"
