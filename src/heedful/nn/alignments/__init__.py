"""Alignment functions that score keys for queries, and the distributions that turn scores into weights."""
