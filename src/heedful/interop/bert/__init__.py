"""BERT models as `transformers` saves them."""
