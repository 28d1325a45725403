"""What the keys of a recipe mean: explanations, the JSON Schema, and recipes with comments."""
