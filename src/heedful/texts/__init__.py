"""Every equation, figure and table of five texts about attention: a command that recomputes it, and a verdict."""
