"""What a recipe of each task must say: one file per task, without torch."""
