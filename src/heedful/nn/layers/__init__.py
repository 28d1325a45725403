"""Position-wise layers: embeddings, feed-forward networks, residual connections, norms, dropout and pooling."""
