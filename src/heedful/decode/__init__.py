"""From a model to sequences: searches are written once, against the decoder protocol, for every family."""
