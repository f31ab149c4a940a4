"""The exercises of assignment 4_vit, and how their answers are judged."""
