"""The answers to the exercises. `training/` trains, measures and compares the Vision Transformer."""
