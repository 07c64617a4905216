"""Training of biLMs: word list, prepared corpus, streams of windows, and the loop."""
