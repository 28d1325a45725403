"""Defaults that follow the data: keys that a recipe does not set, decided from its task, its corpus and its length.

`apply.py` has the table of tasks with rules and the one place where they are applied; each task has a file of rules.
"""
