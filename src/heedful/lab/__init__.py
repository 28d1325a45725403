"""Tools around models: test sets, significance tests between systems (compare), and studies of many runs."""
