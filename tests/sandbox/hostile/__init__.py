"""Hostile and broken submissions, by kind."""
