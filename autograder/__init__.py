"""Build the exercises of the book, grade submissions, and name the mistakes."""
