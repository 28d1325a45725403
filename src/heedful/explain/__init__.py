"""Explanations as pages and images: the explorer."""
