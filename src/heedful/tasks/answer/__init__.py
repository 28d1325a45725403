"""Answers to questions as spans of a text: exact match and F1."""
