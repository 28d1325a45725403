"""Recurrent encoders and decoders, in the wirings of four papers, and recurrent language models."""
