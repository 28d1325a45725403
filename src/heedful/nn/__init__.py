"""The equations of the papers as modules over tensors. They are built from numbers and modules, never a config."""
