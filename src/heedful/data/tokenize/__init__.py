"""Tokenizers: training, caching, and encoding in parallel processes."""
