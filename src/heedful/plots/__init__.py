"""Images as the papers draw them, made by the same code that models run: `heedful plot`."""
