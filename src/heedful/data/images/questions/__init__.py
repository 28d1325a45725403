"""Data: questions about images, from files to packed batches of pixels and words."""
