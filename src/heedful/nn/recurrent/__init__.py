"""Recurrent cells, stacks of cells, and attention inside their loop over time."""
