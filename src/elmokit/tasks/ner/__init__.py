"""Named entities: columns with IOB1, IOB2 or BIOES tags, a biLSTM-CRF, span F1."""
