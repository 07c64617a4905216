"""Answers to questions from a text: SQuAD's JSON, BiDAF with self-attention, F1."""
