"""The paper's analyses of a biLM: what its layers know, what is near to what, how state matters."""
