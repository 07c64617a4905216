"""Tags of words: CoNLL-U or columns, a biLSTM with or without a CRF, accuracy and span F1."""
