"""Grade one submission, and many of them."""
