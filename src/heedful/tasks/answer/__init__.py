"""Answers to questions as stretches of a text: exact match and F1."""
