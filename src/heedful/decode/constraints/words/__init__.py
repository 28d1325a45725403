"""Words that targets must contain, or must not: as whole words of their text, in any spelling by pieces."""
