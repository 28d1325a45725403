"""Forms of files: lines of text, columns of tables, and JSON objects."""
