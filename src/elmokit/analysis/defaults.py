"""What analyses of task models compare unless told otherwise; needs no torch."""

LAMBDAS = (1.0, 0.001)
"""The paper's: one that keeps the mix near an even one, one that lets it learn."""

FRACTIONS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""Shares of the training set, evenly far apart on a log scale."""
