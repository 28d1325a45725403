"""Attention over packed sentences: multi-head attention with any alignment, relative positions and windows."""
