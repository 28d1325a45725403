"""From a model to sequences: searches written once against the decoder protocol, whatever the family."""
