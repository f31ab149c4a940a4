"""The folder of a course: who handed in what, results, marks, nbgrader's gradebook."""
