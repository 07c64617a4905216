"""Semantic roles: columns of CoNLL 2005 and 2012, a deep alternating LSTM, F1 of arguments."""
