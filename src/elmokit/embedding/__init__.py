"""Text to vectors: scheduling, the Embedder with its type cache, and files of results."""
