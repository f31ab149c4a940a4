"""Grade one submission, or many."""
