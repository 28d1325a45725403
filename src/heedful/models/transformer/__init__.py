"""The Transformer's blocks, encoder and decoder, and the decoder's state in fixed buffers."""
