"""Recurrent encoders and decoders, in the wirings of four papers, and a recurrent language model."""
