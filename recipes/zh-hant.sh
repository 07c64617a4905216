#!/bin/sh
# Makes a Traditional Chinese model, from text to card: sh recipes/zh-hant.sh CORPUS
# Needs pip install -e '.[train,analysis]', a core and an hour. A run that was cut off goes on when its
# command is given again with --resume.
set -e
corpus=$1 work=.bench/zh-hant
python recipes/select_text.py "$corpus/zh-Hant" -o $work/text
elmo vocab "$work/text/train-*.txt.gz" -o $work/words.txt --min-count 5
elmo train recipes/zh-hant.yaml
python recipes/ship.py zh-hant $work -o src/elmokit/pretrained/zh-hant --corpus "$corpus"
