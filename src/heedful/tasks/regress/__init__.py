"""Regression: a number for a text, a pair of texts or an image."""
