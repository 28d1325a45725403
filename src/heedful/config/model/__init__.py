"""The [model] table: one file per family."""
