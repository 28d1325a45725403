"""Classification: labelled texts or pairs of texts, accuracy and F1."""
