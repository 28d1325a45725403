"""Layers of networks that read pictures: patches, convolutions, positions on a grid, and augmentation."""
