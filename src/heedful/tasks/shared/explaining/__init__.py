"""Explanations: every attention's weights for a text, and what a model predicted with them."""
