"""Search in fixed buffers, so that a GPU can replay each step from a recording."""
