"""Corpora that ship with Heedful, made by generators of our own."""
