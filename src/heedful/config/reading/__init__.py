"""Recipes from TOML and JSON and back: drafts, overrides, and errors in words."""
