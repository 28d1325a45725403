"""Corpora as files: lines, sentence pairs, labelled texts, documents."""
