"""SentencePiece models, read from their .spm files without the sentencepiece package."""
