"""Builds the exercises of the book, grades what was handed in, and names the mistake."""

import sys

# Each costs what imports it a second, and nothing here needs it: a grammar of addresses, of which jsonschema, by which
# nbformat checks a notebook, finds none; and what jupytext has for a server. Both do without where it is missing.
for name in ("rfc3987_syntax", "jupytext.sync_contentsmanager", "jupytext.async_contentsmanager"):
    sys.modules.setdefault(name, None)
