"""The code that runs in the sandbox, next to the student's. The grader uses `wire` too."""
