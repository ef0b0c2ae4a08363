# Called by the recipes for Multi30k: $1 is the target language, $2 the system, $3 the folder for the report.
set -e
to=$1 system=$2 out=$3
shift 3
data=${REGARD_DATA:?the folder that holds multi30k/tok}/multi30k/tok
regard compare --variants "$(dirname "$0")/multi30k_$system.toml" --out "$out" \
  --source "$data/train.lc.norm.tok.en.gz" --target "$data/train.lc.norm.tok.$to.gz" \
  --valid-source "$data/val.lc.norm.tok.en.gz" --valid-target "$data/val.lc.norm.tok.$to.gz" \
  --test-source "$data/test_2016_flickr.lc.norm.tok.en.gz" --test-target "$data/test_2016_flickr.lc.norm.tok.$to.gz" \
  "$@"
