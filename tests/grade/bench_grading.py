"""Grade the same submissions with plain nbgrader and with our grader, and record the cost of each.

    python tests/grade/bench_grading.py                    10 and 100 submissions of 2_multihead; writes _build/grading.json
    python tests/grade/bench_grading.py --publish          puts that record into book/records/ and book/instructors_scale.md

Our grader is compared with two others. The first is plain nbgrader on the same notebooks: their hidden tests run in the
student's kernel. The second is plain nbgrader on an ordinary notebook of the same exercises, which imports PyTorch and
asserts a few shapes and values.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import nbformat
import psutil
import torch
from nbformat import NotebookNode

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import sample_class

from autograder.cells import is_grade, is_solution
from autograder.course.course import CONFIG, COURSE_ID, Assignment, Course
from autograder.files import write_atomically
from autograder.grade.grade import load_assignment
from autograder.imports import ROOT
from solutions.training.record import describe_machine

NAME, STEM = "2_multihead", "multihead"
RECORD, PAGE = ROOT / "book" / "records" / "grading.json", ROOT / "book" / "instructors_scale.md"
BEGIN, END = "<!-- written by python tests/grade/bench_grading.py --publish -->", "<!-- to here -->"
SIDES = {"plain": "plain nbgrader", "ordinary": "plain nbgrader, ordinary notebook", "ours": "autograder"}
# Probability that a submission gets one given change of the sample class: a mistake, or another right answer.
SHARE = 0.3
MISTAKES = [spoil for student, spoil in sample_class.CLASSES[NAME].items() if student not in ("ada", "emil")]

# The tests of an ordinary notebook.
IMPORTS = "import torch\nimport torch.nn.functional as F\nfrom torch import Tensor, nn"
ORDINARY = {
    "matmul": """a, b = torch.randn(3, 4), torch.randn(4, 5)
assert torch.allclose(matmul(a, b), a @ b, atol=1e-5)""",
    "matmul_transposed": """a, b = torch.randn(3, 4), torch.randn(5, 4)
assert matmul_transposed(a, b).shape == (3, 5)
assert torch.allclose(matmul_transposed(a, b), a @ b.T, atol=1e-5)""",
    "batched_trace": """a = torch.randn(3, 4, 4)
assert torch.allclose(batched_trace(a), torch.stack([m.trace() for m in a]), atol=1e-5)""",
    "pairwise_dot": """q, k = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
assert torch.allclose(pairwise_dot(q, k), q @ k.mT, atol=1e-5)""",
    "bilinear": """x, w, y = torch.randn(2, 3, 4), torch.randn(4, 5), torch.randn(2, 6, 5)
assert torch.allclose(bilinear(x, w, y), x @ w @ y.mT, atol=1e-5)""",
    "split_heads": """x = torch.randn(2, 3, 8)
assert split_heads(x, 4).shape == (2, 4, 3, 2)
assert torch.equal(split_heads(x, 4)[:, 1], x[:, :, 2:4])""",
    "merge_heads": """x = torch.randn(2, 4, 3, 2)
assert merge_heads(x).shape == (2, 3, 8)
assert torch.equal(merge_heads(x)[:, :, 2:4], x[:, 1])""",
    "attend": """q, k, v = torch.randn(2, 3, 5, 4), torch.randn(2, 3, 5, 4), torch.randn(2, 3, 5, 4)
mask = torch.rand(2, 3, 5, 5) < 0.5
mask[..., 0] = True
for each in (None, mask):
    mixed, weights = attend(q, k, v, each)
    assert weights.shape == (2, 3, 5, 5)
    assert torch.allclose(mixed, F.scaled_dot_product_attention(q, k, v, each), atol=1e-5)""",
    "MultiHeadAttention": """mha = MultiHeadAttention(8, 2, dropout=0.5).eval()
x, theirs = torch.randn(2, 3, 8), nn.MultiheadAttention(8, 2, batch_first=True).eval()
theirs.in_proj_weight.data, theirs.in_proj_bias.data = mha.qkv.weight.data, mha.qkv.bias.data
theirs.out_proj.weight.data, theirs.out_proj.bias.data = mha.out.weight.data, mha.out.bias.data
assert torch.allclose(mha(x), theirs(x, x, x)[0], atol=1e-5)""",
    "to_torch": """mha = MultiHeadAttention(8, 2).eval()
theirs = to_torch(mha).eval()
assert isinstance(theirs, nn.MultiheadAttention)
assert torch.equal(theirs.in_proj_bias, mha.qkv.bias)
assert torch.equal(theirs.out_proj.weight, mha.out.weight)""",
}
BUILD_ON_OTHERS = {"attend", "MultiHeadAttention", "to_torch"}  # exercises that use earlier ones


def draw_submission(number: int, seed: int, assignment: Assignment) -> NotebookNode:
    """Return one student's notebook: the answers with some mistakes, drawn from the number and the seed."""
    rng = random.Random(f"{seed}/{number}")
    notebook = sample_class.fill_in(assignment.release, assignment.instructor)
    for spoil in MISTAKES:
        if rng.random() < SHARE:
            with contextlib.suppress(ValueError):  # another mistake has changed these words
                spoil(notebook)
    return notebook


def write_class(folder: Path, size: int, seed: int, assignment: Assignment) -> None:
    """Write the folder of a course that both graders can read."""
    write_atomically(folder / "nbgrader_config.py", CONFIG % COURSE_ID)
    write_atomically(folder / "source" / NAME / f"{STEM}.ipynb", nbformat.writes(assignment.instructor) + "\n")
    for number in range(size):
        sample_class.submit(folder, f"student{number:05}", draw_submission(number, seed, assignment), NAME)


def make_ordinary(folder: Path) -> None:
    """Replace our tests by an ordinary test of a few asserts, in every notebook of a class."""
    for path in folder.rglob("*.ipynb"):
        notebook = nbformat.read(path, 4)
        kept: dict[str, NotebookNode] = {}
        for cell in notebook.cells:
            tests = cell.id
            if cell.id == "setup":
                cell.source = IMPORTS
            elif is_grade(cell) and not is_solution(cell):
                tests = f"tests {exercise_of(cell.id)}"
                cell.source = ORDINARY[exercise_of(cell.id)]
            if not cell.id.startswith("test_"):
                kept.setdefault(tests, cell)
        notebook.cells = list(kept.values())
        nbformat.write(notebook, path)


def exercise_of(cell: str) -> str:
    """Return the exercise of a test cell."""
    return max((name for name in ORDINARY if cell.startswith(f"{name}_")), key=len)


def measure(command: list[str], folder: Path, **environment: str) -> dict[str, float]:
    """Run a command; return elapsed seconds, and the processor seconds of the whole machine, which should do nothing else.

    A process's own count of its children's time lacks the time of a killed sandbox.

    Raises:
        RuntimeError: the command failed. The message ends with its output.
    """
    before, begun = psutil.cpu_times(), time.monotonic()
    done = subprocess.run(command, cwd=folder, env=os.environ | environment, capture_output=True, text=True)
    wall, after = time.monotonic() - begun, psutil.cpu_times()
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} exited with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")
    return {"wall_seconds": wall, "cpu_seconds": after.user + after.system - before.user - before.system}


def run_plain(folder: Path, seed: int) -> dict[str, float]:
    """Make the release with nbgrader, and measure its `autograde`: one process, one thread in each kernel, as we do."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = {"OMP_NUM_THREADS": "1", "AUTOGRADER_SEED": str(seed), "PYTHONPATH": str(ROOT), "PATH": path}
    nbgrader = [sys.executable, "-m", "nbgrader"]
    measure([*nbgrader, "generate_assignment", NAME], folder, **environment)
    return measure([*nbgrader, "autograde", NAME], folder, **environment)


def run_ours(folder: Path, seed: int) -> dict[str, float]:
    """Measure `autograder grade`."""
    command = [sys.executable, "-m", "autograder", "grade", NAME, "--course", str(folder), "--seed", str(seed)]
    return measure(command, ROOT)


def different_points(plain: Path, ours: Path, assignment: Assignment) -> list[str]:
    """Compare the points of all cells; return the differences."""
    theirs, own = (Course(folder).scores(assignment) for folder in (plain, ours))
    return [
        f"{student} {cell}: {score} and {own.get(student, {}).get(cell)}"
        for student, scores in theirs.items()
        for cell, score in scores.items()
        if score != own.get(student, {}).get(cell)
    ]


def other_exercises(ordinary: Path, ours: Path, assignment: Assignment) -> list[str]:
    """Return the students for whom ordinary asserts find different wrong exercises than our tests.

    An ordinary test also fails if an earlier exercise is wrong; ours uses a reference implementation instead of it.
    """
    theirs, own = (
        {
            student: {exercise_of(cell) for cell, (score, waits) in scores.items() if not (score or waits)}
            for student, scores in Course(folder).scores(assignment).items()
        }
        for folder in (ordinary, ours)
    )
    return [
        student
        for student, wrong in own.items()
        if not wrong <= theirs[student] or not theirs[student] - wrong <= BUILD_ON_OTHERS
    ]


def compare(sizes: list[int], seed: int) -> dict[str, Any]:
    """Grade classes of these sizes with each of the three graders; return the measurements."""
    assignment = load_assignment(NAME)
    machine = describe_machine(torch.device("cpu")) | {"memory_bytes": psutil.virtual_memory().total}
    machine |= {name: version(name) for name in ("nbgrader", "ipykernel")}
    found: dict[str, Any] = {"machine": machine, "seed": seed, "runs": []}
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
            folders = {side: Path(name, side) for side in SIDES}
            write_class(folders["ours"], size, seed, assignment)
            for peer in ("plain", "ordinary"):
                shutil.copytree(folders["ours"], folders[peer])
            make_ordinary(folders["ordinary"])
            usage = {}
            for side, title in SIDES.items():
                print(f"{size} submissions, {title} …", flush=True)
                usage[side] = (run_ours if side == "ours" else run_plain)(folders[side], seed)
            differ = different_points(folders["plain"], folders["ours"], assignment)
            others = other_exercises(folders["ordinary"], folders["ours"], assignment)
        found["runs"].append({"size": size, **usage, "different_points": differ, "other_exercises": others})
    return found


def page_of(found: dict[str, Any]) -> str:
    """Return a record's table in Markdown, with the machine that it was measured on."""
    machine = found["machine"]
    names = ", ".join(f"{name} {machine[name]}" for name in ("nbgrader", "ipykernel", "torch", "python"))
    lines = [
        f"Measured on {machine['date']} on {machine['cores']} cores ({machine['processor']}, "
        f"{machine['memory_bytes'] / 2**30:.0f} GiB; load {machine['load'][0]} at the start), with {names}; one run, "
        f"seed {found['seed']}.",
        "",
        "| submissions | graded by | seconds | CPU seconds | ours is faster | scores |",
        "| --: | --- | --: | --: | --: | --- |",
    ]
    for run in found["runs"]:
        differ = {"plain": run["different_points"], "ordinary": run["other_exercises"], "ours": None}
        for side, title in SIDES.items():
            usage = run[side]
            ratio = "" if side == "ours" else f"{usage['wall_seconds'] / run['ours']['wall_seconds']:.1f} times"
            said = {None: "", True: "DIFFER", False: "the same"}[None if differ[side] is None else bool(differ[side])]
            numbers = f"{usage['wall_seconds']:.1f} | {usage['cpu_seconds']:.1f}"
            lines.append(f"| {run['size']} | {title} | {numbers} | {ratio} | {said} |")
    return "\n".join(lines)


def publish(found: dict[str, Any]) -> None:
    """Put a record into book/records/, and its table into book/instructors_scale.md."""
    head, begin, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{PAGE} needs a line {BEGIN!r} and, below it, {END!r}")
    write_atomically(PAGE, f"{head}{BEGIN}\n\n{page_of(found)}\n\n{END}{tail}")
    write_atomically(RECORD, json.dumps(found, indent=1) + "\n")


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", type=int, nargs="*", default=[10, 100], help="of the classes")
    parser.add_argument("--seed", type=int, default=1, help="of the submissions, and of the hidden checks' inputs")
    parser.add_argument("--publish", action="store_true", help="put the last record into the book")
    options = parser.parse_args()
    record = ROOT / "_build" / "grading.json"
    if options.publish:
        publish(json.loads(record.read_text(encoding="utf-8")))
        return
    found = compare(options.sizes, options.seed)
    write_atomically(record, json.dumps(found, indent=1) + "\n")
    print(page_of(found))
    if any(run["different_points"] or run["other_exercises"] for run in found["runs"]):
        raise SystemExit("the points differ; see _build/grading.json")


if __name__ == "__main__":
    main()
