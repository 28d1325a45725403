"""Verbs whose model answers inputs: what they are asked, what they answer, and how the answers are written."""
