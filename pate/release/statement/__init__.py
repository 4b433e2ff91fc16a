"""What may be said of a release: the statement, its assumptions, its words and its file."""
