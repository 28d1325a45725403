"""The doctor: what is wrong with a recipe or its data, and what a run would cost."""
