"""The answers, each once, read from top to bottom; `training/` trains, measures and compares the Vision Transformer."""
