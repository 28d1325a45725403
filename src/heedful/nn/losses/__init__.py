"""Losses of output layers, and divergences between predictions."""
