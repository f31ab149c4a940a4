"""What is asked in attention, and how an answer is judged."""
