"""Data: from images in files and arrays to packed batches of pixels."""
