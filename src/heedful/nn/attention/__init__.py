"""Attention over packed sentences: multi-head, with any alignment, relative positions, windows."""
