"""What folders of all types contain: tensors by name, names of classes, a model card."""
