"""Layers of networks that read images: patches, convolutions, positions on a grid, and augmentation."""
