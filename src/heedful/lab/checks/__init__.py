"""Checks of a recipe and its data before training, each in a file of its own."""
