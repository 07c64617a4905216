"""The paper's task models with ELMo in them: readers, models, metrics, and the loop they share."""
