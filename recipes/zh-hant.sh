#!/bin/sh
# Makes the Traditional Chinese model that ships, from text to card: sh recipes/zh-hant.sh CORPUS
# Needs pip install -e '.[train,analysis]', two cores and half an hour. A run that was cut off goes on when its
# command is given again with --resume.
set -e
corpus=$1 work=.bench/zh-hant
python recipes/select_text.py "$corpus/zh-Hant" -o $work/text
elmo vocab "$work/text/train-*.txt.gz" -o $work/words.txt --min-count 5
torchrun --nproc-per-node 2 -m elmokit train recipes/zh-hant.yaml
python recipes/ship.py zh-hant $work -o src/elmokit/pretrained/zh-hant --corpus "$corpus"
