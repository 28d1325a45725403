"""What several tasks use: loaded models, streaming, embeddings, static shapes."""
