"""Masked language models: running text, masked tokens, next sentences."""
