"""Worked examples: what a head or a recurrent cell of a model computes for a text, step by step."""
