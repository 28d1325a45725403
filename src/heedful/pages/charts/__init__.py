"""Charts as SVG text: they need no script, and look the same in a page, light or dark, and as a file of their own."""
