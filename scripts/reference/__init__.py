"""The pages of docs/reference, written from the schema, the command line and the package."""
