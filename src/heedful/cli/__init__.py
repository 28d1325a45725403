"""The command line: one small file a verb, each imported when it is used."""
