"""The answers, once: modules that are read from top to bottom, and per assignment its instructor notebook as text."""
