"""What is the same thing in a document: CoNLL-2012, end-to-end span ranking, the CoNLL score."""
