"""Remedies that change what is minimised, around the objective of any task."""
