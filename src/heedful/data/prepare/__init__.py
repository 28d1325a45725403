"""From corpora to token stores in the cache."""
