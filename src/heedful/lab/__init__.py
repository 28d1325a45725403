"""Tools around models: what to know before training, and honest comparison afterwards."""
