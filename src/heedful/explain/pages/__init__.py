"""The pages that show explanations: the explorer, trees, maps of vectors."""
