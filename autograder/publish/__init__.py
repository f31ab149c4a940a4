"""From the sources to the notebooks and the book."""
