"""Judge an answer to any exercise."""
