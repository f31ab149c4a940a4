"""What students and instructors read."""
