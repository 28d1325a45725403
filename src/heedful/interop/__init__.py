"""Models of other toolkits become bundles of Heedful: `importing.py` has the table of what is known."""
