"""What is asked in encoder, and how an answer is judged."""
