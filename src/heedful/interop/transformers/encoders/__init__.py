"""Encoders with a head: BERT, RoBERTa, XLM-RoBERTa and DistilBERT, read and written by the same tables of names."""
