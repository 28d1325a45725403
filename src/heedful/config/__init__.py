"""Recipes: the typed schema and its loader. Torch-free, so that mistakes show before anything slow is imported."""
