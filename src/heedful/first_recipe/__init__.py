"""From files to a first recipe: their task, the roles of their columns, and its commented text: `heedful init`."""
