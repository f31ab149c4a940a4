"""Importing this module saves each command 1.5 seconds of processor time; no other module depends on it.

nbformat imports jsonschema, which builds a grammar of web addresses if it finds rfc3987_syntax. jupytext imports its
modules for a server. nbformat and jupytext work without these modules, and the autograder does not need them.
"""

import sys

for name in ("rfc3987_syntax", "jupytext.sync_contentsmanager", "jupytext.async_contentsmanager"):
    sys.modules.setdefault(name, None)
