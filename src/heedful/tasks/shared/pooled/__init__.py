"""Tasks with one output for each text, pair of texts or image: models, tasks, lines to beat and first weights."""
