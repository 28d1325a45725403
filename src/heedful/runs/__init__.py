"""A run from recipe to trained model: its job, folder, checkpoints, fine-tuning, averaging and card."""
