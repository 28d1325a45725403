"""Networks on a CPU with int8 weights: C kernels, and what they cannot run by PyTorch."""
