"""From files to a first recipe: what they are for, the roles of their columns, and its commented text: `heedful init`."""
