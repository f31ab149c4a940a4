"""What is asked in multihead, and how an answer is judged."""
