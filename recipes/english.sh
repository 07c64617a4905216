#!/bin/sh
# Makes the English model that ships, from text to card: sh recipes/english.sh CORPUS DATA
# Needs pip install -e '.[train,analysis]', two cores and some hours. A run that was cut off goes on when its
# command is given again with --resume.
set -e
corpus=$1 data=$2 work=.bench/english
python recipes/select_text.py "$corpus/en" "$corpus/en-modern" -o $work/text
elmo vocab "$work/text/train-*.txt.gz" -o $work/words.txt --max-size 20000
torchrun --nproc-per-node 2 -m elmokit train recipes/english.yaml
torchrun --nproc-per-node 2 -m elmokit train recipes/english-finish.yaml
python recipes/ship.py english $work -o src/elmokit/pretrained/default --corpus "$corpus" --data "$data"
