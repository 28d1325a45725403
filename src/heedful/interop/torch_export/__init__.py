"""Models as programs of `torch.export`: writing, and comparing with the original."""
