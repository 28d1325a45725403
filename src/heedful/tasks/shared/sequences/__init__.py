"""What tasks that map one sequence to another have in common: texts, options of a search, data, validation."""
