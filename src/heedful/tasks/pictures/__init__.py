"""Tasks of models that read pictures: one folder per task."""
