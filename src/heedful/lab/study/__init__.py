"""Studies: many small trainings that differ in a few keys of a recipe, and one page about them."""
