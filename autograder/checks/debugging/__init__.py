"""What is asked in assignment 5_debugging, and how an answer is judged."""
