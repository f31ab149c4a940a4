"""How an answer is judged, whatever the exercise."""
