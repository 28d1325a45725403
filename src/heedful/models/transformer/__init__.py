"""The Transformer's blocks, encoder and decoder, and the state of the decoder, also in fixed buffers."""
