"""Whether a text follows from another: SNLI, SICK or tab-separated pairs, ESIM, accuracy."""
