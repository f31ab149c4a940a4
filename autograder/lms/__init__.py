"""Learning management systems: collecting submissions and exporting scores."""
