"""The [train] table of a recipe."""
