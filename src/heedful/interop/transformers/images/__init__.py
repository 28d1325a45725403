"""Vision Transformers, read and written by the same table of names."""
