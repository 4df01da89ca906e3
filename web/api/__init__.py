"""The HTTP API: one noun a file, each a table of operations."""
