"""Position-wise layers: embeddings, feed-forward networks, residuals, norms, dropout, pools."""
