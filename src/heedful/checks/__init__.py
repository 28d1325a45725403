"""Checks of a recipe and its data before training; the doctor and every new run make them."""
