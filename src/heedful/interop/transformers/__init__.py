"""Models of `transformers`, in the layout of its folders."""
