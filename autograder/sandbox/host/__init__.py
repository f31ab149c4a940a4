"""The grader's end: it starts a sandbox, speaks to the kernel in it, and asks a student's answer."""
