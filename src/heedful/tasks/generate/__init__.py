"""The task of language models: running text, the next token, and texts that continue a prompt."""
