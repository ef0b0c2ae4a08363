#!/bin/sh
# Fashion-MNIST: a residual network alone and with three kinds of attention, and a Vision Transformer, three seeds.
# Expected accuracies, time and hardware: recipes/README.md.
# recipes/fashion.sh [FOLDER [OPTIONS OF regard compare, such as --jobs 5]]
# The data are Debian's package dataset-fashion-mnist, or the IDX files of the folder that FASHION names.
set -e
out=${1:-models/fashion}
[ $# -gt 0 ] && shift
data=${FASHION:-fashion-mnist}
regard compare --variants "$(dirname "$0")/fashion.toml" --out "$out" --data "$data" --valid "$data" --test "$data" "$@"
