"""Checks of the rows of corpora; the doctor and every new run make them."""
