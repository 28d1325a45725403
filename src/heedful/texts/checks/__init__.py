"""Equations and worked examples of the texts, computed by their words and by Heedful."""
