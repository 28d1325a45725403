"""Answers to questions about images: accuracy, also by kind of question."""
