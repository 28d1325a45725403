"""What models are trained for: one folder per task, each a row of the table."""
