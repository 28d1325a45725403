"""The gallery of the explorer: a small model of every family, its training data, and photographs of its page."""
