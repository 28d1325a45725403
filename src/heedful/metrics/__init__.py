"""Scores: of translations against references, of a model against text, and the files that record them."""
