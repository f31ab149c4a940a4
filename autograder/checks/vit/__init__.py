"""What is asked in vit, and how an answer is judged."""
