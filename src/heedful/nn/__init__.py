"""Tensors only: the equations of the papers as modules that take numbers and modules, never a config."""
