"""Questions about texts: what one is, and how each kind of corpus is read."""
