"""Builds the exercises of the book, grades what was handed in, and names the mistake."""

import sys

# jsonschema, by which nbformat checks a notebook, would import it: a second for a grammar of addresses that none has
sys.modules.setdefault("rfc3987_syntax", None)
