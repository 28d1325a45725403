"""Convolutions over packed sentences: causal ones, and those around each token."""
