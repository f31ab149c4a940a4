"""Importing this saves each command 1.5 seconds of processor time; nothing depends on it.

nbformat imports jsonschema, which builds a grammar of web addresses if it finds rfc3987_syntax; jupytext imports its modules
for a server. Both work without them, and nothing here needs them.
"""

import sys

for name in ("rfc3987_syntax", "jupytext.sync_contentsmanager", "jupytext.async_contentsmanager"):
    sys.modules.setdefault(name, None)
