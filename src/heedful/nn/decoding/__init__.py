"""What one decoding step computes: attention over cached keys, the best tokens, the step of a beam."""
