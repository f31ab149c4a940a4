"""Make a sample class: submissions of 1_attention as students hand them in, each made from the answers.

python tests/sample_class.py FOLDER      writes FOLDER/submitted/STUDENT/1_attention/…
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import nbformat
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parent.parent
ASSIGNMENT = "1_attention"


def change(notebook: NotebookNode, name: str, old: str, new: str) -> None:
    """Replace a piece of one answer; a piece that is not there is an error, so that no sample quietly is the answer."""
    cell = answer(notebook, name)
    if old not in cell.source:
        raise ValueError(f"{name} does not contain {old!r}; correct the sample")
    cell.source = cell.source.replace(old, new)


def answer(notebook: NotebookNode, name: str) -> NotebookNode:
    """Return the cell of an answer, or of another grade id."""
    return next(cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == name)


def fill_in(release: NotebookNode, instructor: NotebookNode) -> NotebookNode:
    """Return the released notebook as the perfect student hands it in."""
    notebook = nbformat.from_dict(release)
    for blank, full in zip(notebook.cells, instructor.cells, strict=True):
        if blank.metadata.get("nbgrader", {}).get("solution"):
            blank.source = full.source.split("=== BEGIN MARK SCHEME")[0].rstrip()  # that is ours
    return notebook


def hand_in(course: Path, student: str, notebook: NotebookNode | str, assignment: str = ASSIGNMENT) -> Path:
    """Write a notebook, or a text in its place, where students hand in. Not nbformat.write, which would mend what is torn."""
    path = course / "submitted" / student / assignment / f"{assignment.partition('_')[2]}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(notebook if isinstance(notebook, str) else json.dumps(notebook), encoding="utf-8")
    return path


def rewrite(notebook: NotebookNode, name: str, body: str) -> None:
    """Replace the body of an answer."""
    cell = answer(notebook, name)
    head = cell.source.split("### BEGIN SOLUTION")[0].rstrip()
    cell.source = head + "\n" + "\n".join("    " + line for line in body.strip("\n").split("\n"))


def perfect(notebook):
    """Hand in the answers."""


def syntax_error(notebook):
    """Forget a bracket in softmax: its cell does not run, the other functions are still right."""
    change(notebook, "softmax", "np.exp(shifted)", "np.exp(shifted")


def endless_loop(notebook):
    """Wait for something that never comes, in attention."""
    change(
        notebook,
        "attention",
        "    weights = softmax(scores)",
        "    while scores.std() != 0:\n        pass\n    weights = softmax(scores)",
    )


def kernel_crash(notebook):
    """End the kernel's process in self_attention."""
    change(notebook, "self_attention", "    return attention", "    import os\n    os._exit(1)\n    return attention")


def warns(notebook):
    """Warn on stderr in right code, which must cost nothing."""
    change(notebook, "softmax", "    shifted", '    import warnings\n    warnings.warn("shifting")\n    shifted')


def softmax_over_queries(notebook):
    """M6, in attention."""
    change(notebook, "attention", "softmax(scores)", "softmax(scores, axis=-2)")


def not_scaled(notebook):
    """M8, in attention, and nothing else."""
    change(notebook, "attention", " / np.sqrt(queries.shape[-1])", "")


def masked_afterwards(notebook):
    """M17, in attention: the weights are multiplied by the mask."""
    change(notebook, "attention", "        scores = np.where(mask, scores, -np.inf)\n", "")
    change(
        notebook,
        "attention",
        "    return weights",
        "    weights = weights if mask is None else weights * mask\n    return weights",
    )


def no_keepdims(notebook):
    """M4 in softmax: one mistake, which the functions that use softmax do not pay for again."""
    change(notebook, "softmax", "exponentials.sum(axis=axis, keepdims=True)", "exponentials.sum(axis=axis)")


def diagonal_jacobian(notebook):
    """M66, in attention_backward."""
    change(notebook, "attention_backward", "(grad_weights - row_means)", "grad_weights")


def two_mistakes(notebook):
    """M3 and M5 together in softmax, and M11 in self_attention."""
    change(notebook, "softmax", "scores - scores.max(axis=axis, keepdims=True)", "scores")
    change(notebook, "softmax", "exponentials.sum(axis=axis, keepdims=True)", "exponentials.sum()")
    change(notebook, "self_attention", "tokens @ w_query, tokens @ w_key", "tokens @ w_key, tokens @ w_query")


def in_loops(notebook):
    """Write softmax and attention as loops: right, and unlike the answer."""
    rewrite(
        notebook,
        "softmax",
        """
moved = np.moveaxis(np.asarray(scores, dtype=float), axis, -1)
weights = np.empty_like(moved)
for index in np.ndindex(moved.shape[:-1]):
    row = [float(np.exp(score - max(moved[index]))) for score in moved[index]]
    weights[index] = [entry / sum(row) for entry in row]
return np.moveaxis(weights, -1, axis)
""",
    )


def in_torch(notebook):
    """Let PyTorch do it: right, and tensors come back."""
    rewrite(notebook, "softmax", "import torch\nreturn torch.softmax(torch.tensor(scores), dim=axis)")
    rewrite(
        notebook,
        "attention_backward",
        """
import torch
import torch.nn.functional as F
leaves = [torch.tensor(array, requires_grad=True) for array in (queries, keys, values)]
return torch.autograd.grad(F.scaled_dot_product_attention(*leaves), leaves, torch.tensor(grad_output))
""",
    )
    change(notebook, "attention", "softmax(scores)", "softmax(scores).numpy()")


def by_einsum(notebook):
    """Write every product as an einsum, in float32."""
    change(
        notebook,
        "attention",
        "queries @ np.swapaxes(keys, -1, -2)",
        'np.einsum("...qd,...kd->...qk", np.float32(queries), np.float32(keys))',
    )
    change(notebook, "attention", "weights @ values", 'np.einsum("...qk,...kv->...qv", weights, values)')


def torn_apart(notebook):
    """Lose all metadata, copy a cell, delete a test, install a package: honest accidents."""
    for cell in notebook.cells:
        cell.metadata = {}
        cell.pop("id", None)
    softmax = next(index for index, cell in enumerate(notebook.cells) if "def softmax" in cell.source)
    install = nbformat.v4.new_code_cell("!pip install numpy")
    del install["id"]  # a random one: the sample is the same every time
    notebook.cells.insert(softmax, install)
    notebook.cells.insert(softmax + 2, nbformat.from_dict(notebook.cells[softmax + 1]))
    del notebook.cells[softmax + 4]


CLASS: dict[str, Callable[[NotebookNode], None]] = {
    "ada": perfect,
    "chen": syntax_error,
    "dora": endless_loop,
    "emil": kernel_crash,
    "fatima": warns,
    "goran": softmax_over_queries,
    "hana": not_scaled,
    "ivan": masked_afterwards,
    "jana": no_keepdims,
    "kofi": diagonal_jacobian,
    "lena": two_mistakes,
    "mira": in_loops,
    "noor": in_torch,
    "omar": by_einsum,
    "pia": torn_apart,
}


def make_submissions(instructor: NotebookNode, release: NotebookNode) -> dict[str, str | None]:
    """Return the file that each student hands in; None for one who hands in nothing."""
    files: dict[str, str | None] = {}
    for student, spoil in CLASS.items():
        notebook = fill_in(release, instructor)
        spoil(notebook)
        files[student] = json.dumps(notebook)  # not nbformat.writes, which would mend what is torn
    files["ben"] = nbformat.writes(release)
    files["quinn"] = None
    files["rosa"] = "<!DOCTYPE html><title>Sign in to continue</title>"
    return files


def write_class(folder: Path) -> None:
    """Write the sample class below a course's folder; what is there already stays as it is."""
    from autograder.files import write_atomically
    from autograder.grade import load_assignment

    assignment = load_assignment(ASSIGNMENT)
    for student, text in make_submissions(assignment.instructor, assignment.release).items():
        place = folder / "submitted" / student / ASSIGNMENT
        place.mkdir(parents=True, exist_ok=True)
        if text is not None:
            name = "Copy of attention (1).ipynb" if student == "omar" else "attention.ipynb"
            write_atomically(place / name, text)


if __name__ == "__main__":
    write_class(Path(sys.argv[1]))
