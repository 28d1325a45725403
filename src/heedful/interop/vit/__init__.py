"""Vision Transformers of `transformers`."""
