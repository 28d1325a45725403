"""Search in fixed buffers, so that a GPU replays each step from a recording."""
