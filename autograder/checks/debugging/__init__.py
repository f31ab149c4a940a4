"""The exercises of assignment 5_debugging, and how their answers are judged."""
