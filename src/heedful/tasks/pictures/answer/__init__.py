"""Answers to questions about pictures: accuracy, also by kind of question."""
