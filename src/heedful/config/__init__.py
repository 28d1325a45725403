"""Recipes: the typed schema and its loader. Torch-free, so that mistakes are reported before slow imports."""
