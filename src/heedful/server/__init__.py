"""The server: models of all tasks over HTTP, for programs and for a page in the browser."""
