"""Networks as graphs over rows of one length, for libraries that run graphs: ONNX Runtime and `torch.export`."""
