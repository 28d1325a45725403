"""Encoder-decoders of `transformers`: MarianMT and Pegasus in both directions, M2M-100, NLLB and mBART inwards."""
