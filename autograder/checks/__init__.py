"""The hidden checks, a module for each file of answers in `solutions/`."""
