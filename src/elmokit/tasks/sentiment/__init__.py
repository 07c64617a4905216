"""How a sentence judges: trees of SST or tab-separated lines, a biattentive network, accuracy."""
