"""Builds the exercises of the book, grades what was handed in, and names the mistake."""
