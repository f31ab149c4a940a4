"""The exercises of assignment 3_encoder, and how their answers are judged."""
