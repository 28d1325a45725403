"""Checks of whole models: what they are made of, how they search, and the sizes and settings that texts print."""
