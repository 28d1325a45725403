"""Data: from files of text to packed batches of token ids, with a cache between them."""
