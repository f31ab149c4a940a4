"""One submission to one result, and many of them."""
