"""Models of ONNX, which ONNX Runtime runs: writing, and comparing with the original."""
