"""Tools around models: checks before training (doctor), and significance tests between systems (compare)."""
