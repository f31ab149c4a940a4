"""The folder of a course: who submitted what, results, nbgrader's gradebook."""
