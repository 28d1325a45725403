"""Data: from pictures in files and arrays to packed batches of pixels."""
