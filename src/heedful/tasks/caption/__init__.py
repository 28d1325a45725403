"""Captions: what an image shows, in a sentence."""
