"""The report of runs: what their folders record, as one page. It is read and written without torch."""
