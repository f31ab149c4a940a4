"""Raises an error whose text is a script and a table."""
# %% in softmax
raise ValueError('<script>alert(1)</script>|x|`y`\n# [z](javascript:alert(1)) \x1b[31m')
