"""Llama-shaped models as `transformers` saves them."""
