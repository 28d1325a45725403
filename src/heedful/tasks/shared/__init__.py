"""What several tasks use: placement of a model, streaming, embeddings, static shapes."""
