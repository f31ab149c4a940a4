"""The exercises of assignment 2_multihead, and how their answers are judged."""
