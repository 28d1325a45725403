"""The hypotheses of a search and the rules by which they grow: beam, greedy, sampling."""
