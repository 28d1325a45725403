"""Translation: sentence pairs in, the next target token, beam search, BLEU and chrF."""
