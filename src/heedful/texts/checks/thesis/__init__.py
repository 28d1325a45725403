"""Checks of the thesis, by the topics of its chapter 2."""
