"""Tasks of models that read images: one folder per task."""
