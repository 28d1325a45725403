"""Training: objectives, optimizers, schedules, the training loop, and checkpoints from which a run resumes exactly."""
