"""Data: questions about pictures, from files to packed batches of pixels and words."""
