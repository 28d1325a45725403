"""Language models: GPT-2, Llama, Mistral and Qwen2, read and written by the same tables of names."""
