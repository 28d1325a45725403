"""The corpora that a recipe can name: one class per container, with the roles of its rows."""
