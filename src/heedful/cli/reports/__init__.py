"""What the command line prints as tables and as JSON."""
