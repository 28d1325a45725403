"""Models of CTranslate2, which runs Transformers on CPUs and GPUs: writing, and comparing with the original."""
