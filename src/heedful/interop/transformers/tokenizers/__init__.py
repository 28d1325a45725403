"""Vocabularies of `transformers`: SentencePiece, byte-level BPE and WordPiece."""
