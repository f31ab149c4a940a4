"""In from an LMS, and out to it."""
