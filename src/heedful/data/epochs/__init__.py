"""The order of an epoch as a pure function of (corpus, seed, epoch), and the loader that follows it."""
