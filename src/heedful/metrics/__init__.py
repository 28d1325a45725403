"""Scores of translations and classes, perplexity, significance tests, and the files that record results."""
