"""Equations, listings and claims of the tutorial, computed by its own symbols and by Heedful."""
