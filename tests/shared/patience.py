"""How long a test waits for another process before it calls it hung: never a measure of speed."""

PATIENCE = 600.0  # seconds; machines that share their cores with others have been seen ten times slower
