"""The corpora that a recipe can name: one file per family of forms."""
