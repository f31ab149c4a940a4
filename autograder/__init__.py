"""Builds the exercises of the book, grades what was submitted, and names the mistake."""
