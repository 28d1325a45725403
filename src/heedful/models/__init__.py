"""Compositions of `nn` parts: blocks, encoders, decoders, families, and the bundle that holds one on disk."""
