"""Recurrent cells, stacks of them, and attention inside their loop over time."""
