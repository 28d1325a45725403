"""The tasks that models are trained for: one folder per task, listed in `table.py`."""
