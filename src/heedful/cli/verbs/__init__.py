"""One file per verb, each imported when it is used."""
