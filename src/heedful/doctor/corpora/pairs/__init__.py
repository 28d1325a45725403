"""Checks of pairs of texts: lines that are shifted, sides that are swapped."""
