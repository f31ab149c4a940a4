"""The hidden checks, a folder for each file of answers in `solutions/`."""
