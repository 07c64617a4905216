"""Scores as pure functions of what is right and what was predicted."""
