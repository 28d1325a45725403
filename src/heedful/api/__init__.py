"""The Python interface: `model.load` a model and use it, `training.train` one from a recipe."""
