"""Exports: what a format is, inputs to compare on, and how the answers of both models compare."""
