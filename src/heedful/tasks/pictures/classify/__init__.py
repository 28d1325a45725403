"""Classification of pictures: accuracy and F1."""
