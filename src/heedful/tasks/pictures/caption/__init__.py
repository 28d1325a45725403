"""Captions: what a picture shows, in a sentence."""
