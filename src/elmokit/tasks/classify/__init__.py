"""One label for a text: tab-separated lines or TREC's questions, a pooled biLSTM, accuracy."""
