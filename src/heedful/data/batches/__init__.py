"""From rows of token stores to packed batches, one file per kind of batch."""
