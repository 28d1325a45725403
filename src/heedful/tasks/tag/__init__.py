"""Tagging: one label per word, accuracy, and F1 of the spans that labels mark."""
