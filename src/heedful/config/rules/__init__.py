"""The rules of each task's recipes: one file per task, without torch."""
