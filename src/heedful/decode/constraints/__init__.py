"""Constraints: which tokens may follow a hypothesis, or should rather not."""
