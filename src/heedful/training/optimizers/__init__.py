"""Optimizers, their state, and the moving average of what they train."""
