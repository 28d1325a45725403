"""The command line: one small file per verb, each imported when it is used."""
