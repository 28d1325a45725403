"""Explanations as pages and pictures: the explorer."""
