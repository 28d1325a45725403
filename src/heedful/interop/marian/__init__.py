"""MarianMT models, such as those of OPUS-MT, as `transformers` saves them."""
