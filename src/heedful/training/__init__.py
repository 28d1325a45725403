"""How weights are found: objectives, optimizers, schedules, the loop, and checkpoints that resume to the same bits."""
