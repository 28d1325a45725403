"""GPT-2 models as `transformers` saves them."""
