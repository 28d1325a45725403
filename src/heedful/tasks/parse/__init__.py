"""Parsers: sentences to constituency trees."""
