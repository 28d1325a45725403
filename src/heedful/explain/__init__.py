"""Explanations: what a model attended to and computed for an input, and the pages that show it."""
