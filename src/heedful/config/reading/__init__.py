"""Recipes from TOML and JSON and back: drafts, overrides, and error messages."""
