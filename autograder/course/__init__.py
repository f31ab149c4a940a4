"""The folder of a course: who submitted what, results, marks, nbgrader's gradebook."""
