"""Build the notebooks and the book from their sources."""
