"""The exercises of assignment 1_attention, and how their answers are judged."""
