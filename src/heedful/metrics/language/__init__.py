"""How well models predict tokens: perplexity, masked tokens, and counts of n-grams as a baseline."""
