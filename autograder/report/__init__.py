"""Pages and tables for students and instructors."""
