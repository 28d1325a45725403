"""Classification of images: accuracy and F1."""
