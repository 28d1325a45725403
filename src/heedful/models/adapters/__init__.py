"""Adapters: small matrices that are trained, saved and loaded in place of the weights of a larger model."""
