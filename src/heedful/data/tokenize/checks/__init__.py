"""Checks of what the tokenizers library trusts: its files, its rules, and the words that it is trained on."""
