"""Make a sample class: realistic submissions, each made from the answers.

python tests/sample_class.py FOLDER             writes FOLDER/submitted/STUDENT/ASSIGNMENT/…
python tests/sample_class.py --moodle FOLDER    writes Moodle's downloads of three students for two assignments
"""

import csv
import io
import json
import re
import sys
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from autograder.imports import ROOT

ASSIGNMENT = "1_attention"
SIGN_IN = "<!DOCTYPE html><title>Sign in to continue</title>"  # a page instead of a notebook
# solutions.training.train.train gave them with Settings(epochs=4) on load_digits(); each number has 16 bits.
OWN_WEIGHTS = ROOT / "tests" / "own_vit.pt"


def change(notebook: NotebookNode, name: str, old: str, new: str) -> None:
    """Replace a piece of one answer. A missing piece is an error; otherwise the sample would silently stay the right answer."""
    cell = answer(notebook, name)
    if old not in cell.source:
        raise ValueError(f"{name} does not contain {old!r}; correct the sample")
    cell.source = cell.source.replace(old, new)


def answer(notebook: NotebookNode, name: str) -> NotebookNode:
    """Return the cell of an answer, or of another grade id."""
    return next(cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == name)


def fill_in(release: NotebookNode, instructor: NotebookNode, bonus: bool = False) -> NotebookNode:
    """Return the released notebook with all answers, as a perfect student submits it; a bonus may stay unwritten."""
    notebook = nbformat.from_dict(release)
    for blank, full in zip(notebook.cells, instructor.cells, strict=True):
        if blank.metadata.get("nbgrader", {}).get("solution") and (bonus or "bonus" not in blank.metadata):
            blank.source = full.source.split("=== BEGIN MARK SCHEME")[0].rstrip()  # the rubric is for instructors
    return notebook


def submit(course: Path, student: str, notebook: NotebookNode | str, assignment: str = ASSIGNMENT) -> Path:
    """Write a notebook, or a text instead, where students submit. nbformat.write would repair a torn notebook."""
    path = course / "submitted" / student / assignment / f"{assignment.partition('_')[2]}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(notebook if isinstance(notebook, str) else json.dumps(notebook), encoding="utf-8")
    return path


def rewrite(notebook: NotebookNode, name: str, body: str) -> None:
    """Replace the body of an answer."""
    cell = answer(notebook, name)
    head = re.split("### BEGIN SOLUTION|# YOUR CODE HERE", cell.source)[0].rstrip()
    cell.source = head + "\n" + "\n".join("    " + line for line in body.strip("\n").split("\n"))


def changed(*words: str) -> Callable[[NotebookNode], None]:
    """Return a function that changes answers: name, old words, new words, and so on."""

    def spoil(notebook: NotebookNode) -> None:
        for name, old, new in zip(words[::3], words[1::3], words[2::3], strict=True):
            change(notebook, name, old, new)

    return spoil


def rewritten(name: str, body: str) -> Callable[[NotebookNode], None]:
    """Return a function that replaces the body of an answer."""
    return lambda notebook: rewrite(notebook, name, body)


def both(*spoils: Callable[[NotebookNode], None]) -> Callable[[NotebookNode], None]:
    """Return a function that makes several changes."""

    def spoil(notebook: NotebookNode) -> None:
        for each in spoils:
            each(notebook)

    return spoil


perfect = changed()
softmax_over_queries = changed("attention", "softmax(scores)", "softmax(scores, axis=-2)")  # M6
not_scaled = changed("attention", " / np.sqrt(queries.shape[-1])", "")  # M8


def strip_cells(notebook):
    """Remove the ids and the metadata of all cells, as some converters do."""
    for cell in notebook.cells:
        cell.metadata = {}
        cell.pop("id", None)


def torn_apart(notebook):
    """Remove all metadata, copy a cell, delete a test, install a package: honest accidents."""
    strip_cells(notebook)
    softmax = next(index for index, cell in enumerate(notebook.cells) if "def softmax" in cell.source)
    install = nbformat.v4.new_code_cell("!pip install numpy")
    del install["id"]  # the id is random, and the sample has to be the same every time
    notebook.cells.insert(softmax, install)
    notebook.cells.insert(softmax + 2, nbformat.from_dict(notebook.cells[softmax + 1]))
    del notebook.cells[softmax + 4]


BONUS = {ASSIGNMENT: "online_softmax", "3_encoder": "rope"}  # most students leave it unwritten
CLASS: dict[str, Callable[[NotebookNode], None]] = {
    "ada": perfect,
    # a bracket is missing: the cell does not run, the other functions are still right
    "chen": changed("softmax", "np.exp(shifted)", "np.exp(shifted"),
    # waits for something that never comes
    "dora": changed("attention", "    weights = s", "    while scores.std() != 0:\n        pass\n    weights = s"),
    # ends the kernel's process
    "emil": changed("self_attention", "    return attention", "    import os\n    os._exit(1)\n    return attention"),
    # warns on stderr in right code, which costs nothing; M194 in the bonus costs nothing either
    "fatima": both(
        changed("softmax", "    shifted", '    import warnings\n    warnings.warn("shifting")\n    shifted'),
        rewritten(
            "online_softmax",
            """
larger = np.maximum(largest, scores.max(axis=-1))
new = np.exp(scores - np.nan_to_num(larger, neginf=0)[..., None])
return larger, total + new.sum(axis=-1), mixed + new @ values
""",
        ),
    ),
    "goran": softmax_over_queries,
    "hana": not_scaled,
    # M17: the weights are multiplied by the mask
    "ivan": changed(
        *("attention", "        scores = np.where(mask, scores, -np.inf)\n", ""),
        *("attention", "    return w", "    weights = weights if mask is None else weights * mask\n    return w"),
    ),
    # M4: the functions that use softmax do not lose points for it again
    "jana": changed("softmax", "exponentials.sum(axis=axis, keepdims=True)", "exponentials.sum(axis=axis)"),
    # M66
    "kofi": changed("attention_backward", "(grad_weights - row_means)", "grad_weights"),
    # M3 and M5 together in softmax, and M11 in self_attention
    "lena": changed(
        *("softmax", "scores - scores.max(axis=axis, keepdims=True)", "scores"),
        *("softmax", "exponentials.sum(axis=axis, keepdims=True)", "exponentials.sum()"),
        *("self_attention", "tokens @ w_query, tokens @ w_key", "tokens @ w_key, tokens @ w_query"),
    ),
    # right, and the bonus too
    "mira": rewritten(
        "online_softmax",
        """
largest, total, mixed = largest.copy(), total.copy(), mixed.copy()
for index in np.ndindex(largest.shape):
    for score, value in zip(scores[index], values[index[:-1]]):
        larger = max(largest[index], score)
        if larger > -np.inf:
            repair, new = np.exp(largest[index] - larger), np.exp(score - larger)
            largest[index], total[index] = larger, repair * total[index] + new
            mixed[index] = repair * mixed[index] + new * value
return largest, total, mixed
""",
    ),
    # PyTorch does the work: the results are right, and tensors come back
    "noor": both(
        rewritten("softmax", "import torch\nreturn torch.softmax(torch.tensor(scores), dim=axis)"),
        changed("attention", "softmax(scores)", "softmax(scores).numpy()"),
    ),
    # right, every product as an einsum, in float32
    "omar": changed(
        *("attention", "queries @ np.swapaxes(keys, -1, -2)"),
        'np.einsum("...qd,...kd->...qk", np.float32(queries), np.float32(keys))',
        *("attention", "weights @ values", 'np.einsum("...qk,...kv->...qv", weights, values)'),
    ),
    "pia": torn_apart,
}


# ------------------------------------------------------------------------------------- the exercises in PyTorch


def batch_axis_left(notebook):
    """Repair everything but the axis along which attention runs, M28."""
    cell = next(cell for cell in notebook.cells if "batch_first = True" in cell.source)
    cell.source = "\n".join(line for line in cell.source.split("\n") if "batch_first = True" not in line)


def two_not_repaired(notebook):
    """Leave the first two programs unchanged."""
    from autograder.publish.build import program_cell

    for cell in [cell for cell in notebook.cells if cell.metadata.get("broken")][:2]:
        cell.source = program_cell("debugging", cell.id, broken=True)


CLASSES: dict[str, dict[str, Callable[[NotebookNode], None]]] = {
    ASSIGNMENT: CLASS,
    "2_multihead": {
        "ada": perfect,
        # M21; the layer that uses it does not lose points for it again
        "goran": rewritten(
            "split_heads", "return x.reshape(x.shape[0], num_heads, x.shape[1], x.shape[2] // num_heads)"
        ),
        # M8; M29, dropout in evaluation too; M83, no biases
        "hana": changed(
            *("attend", " / q.shape[-1] ** 0.5", ""),
            *("MultiHeadAttention", "self.dropout(weights)", "F.dropout(weights, self.dropout.p)"),
            *("to_torch", "        layer.in_proj_bias.copy_(mha.qkv.bias)  # (3 D,)\n", ""),
            *("to_torch", "        layer.out_proj.bias.copy_(mha.out.bias)  # (D,)\n", ""),
        ),
    },
    "3_encoder": {
        "ada": perfect,
        # M33, and the encoder that stacks such blocks does not lose points for it again; M41; M28
        "goran": both(
            changed(
                *("EncoderBlock", "x + self.dropout(self.attention(self.norm_attention(x), mask))"),
                "self.norm_attention(x + self.dropout(self.attention(x, mask)))",
                *("EncoderBlock", "x + self.dropout(self.feed_forward(self.norm_feed_forward(x)))"),
                "self.norm_feed_forward(x + self.dropout(self.feed_forward(x)))",
                *("FeedForward", "F.gelu(", "F.relu("),
            ),
            batch_axis_left,
        ),
        # M34, over the tokens; M38, the same block again and again; another model, although a sound one;
        # M200 in the bonus, the halves as language models have them
        "hana": both(
            changed(
                *("LayerNorm", "x.mean(dim=-1, keepdim=True)", "x.mean(dim=-2, keepdim=True)"),
                *("LayerNorm", "square().mean(dim=-1, keepdim=True)", "square().mean(dim=-2, keepdim=True)"),
                "Encoder",
                "nn.ModuleList(EncoderBlock(width, num_heads, hidden_width, dropout) for _ in range(depth))",
                "nn.ModuleList([EncoderBlock(width, num_heads, hidden_width, dropout)] * depth)",
            ),
            rewritten("repair", "return EncoderBlock(block.attention.embed_dim, block.attention.num_heads, 64)"),
            rewritten(
                "rope",
                """
if x.shape[-1] % 2:
    raise ValueError("an odd width")
angles = positions[..., None] / base ** (torch.arange(0, x.shape[-1], 2) / x.shape[-1])
first, second = x.chunk(2, dim=-1)
return torch.cat([first * angles.cos() - second * angles.sin(), first * angles.sin() + second * angles.cos()], dim=-1)
""",
            ),
        ),
    },
    "4_vit": {
        "ada": perfect,
        # M49; M53, and M55: the loss of the last batch; M124, in column order, for which the ViT does not lose points again
        "goran": changed(
            *("ViT", "torch.cat([class_token, patches], dim=1)", "torch.cat([patches, class_token], dim=1)"),
            *("train_epoch", "        optimizer.zero_grad()\n", ""),
            *("train_epoch", "float(loss_sum) / count,", "float(loss.detach()),"),
            *("PatchEmbedding", ".flatten(2).transpose(1, 2)", ".transpose(2, 3).flatten(2).transpose(1, 2)"),
        ),
        # M44; M52; M150
        "hana": changed(
            *("patchify", "rows.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)"),
            "images.reshape(len(images), -1, images.shape[1] * patch_size**2)",
            *("evaluate", "    model.eval()\n", ""),
            *("attention_rollout", "block @ rollout", "rollout @ block"),
        ),
    },
    "5_debugging": {
        "ada": perfect,
        "goran": both(two_not_repaired, changed("test_attention", "assert refused", "assert True")),  # M20
        # M182, shapes alone
        "hana": changed("test_attention", "assert torch.allclose(got, right, rtol=1e-3, atol=1e-3), ", "assert True, "),
    },
}


def make_submissions(
    instructor: NotebookNode, release: NotebookNode, assignment: str = ASSIGNMENT
) -> dict[str, str | None]:
    """Return the file of each student; None for a student who submits nothing."""
    files: dict[str, str | None] = {"ben": nbformat.writes(release)}
    if assignment == ASSIGNMENT:
        files |= {"quinn": None, "rosa": SIGN_IN}
    for student, spoil in CLASSES[assignment].items():
        notebook = fill_in(release, instructor)
        spoil(notebook)
        files[student] = json.dumps(notebook)  # nbformat.writes would repair a torn notebook
    return files


@cache
def own_weights() -> bytes:
    """Return a file of weights that a student could have trained: the book's are refused."""
    import torch

    return saved({name: half.float() for name, half in torch.load(OWN_WEIGHTS, weights_only=True).items()})


def saved(value: object) -> bytes:
    """Return the bytes that torch.save writes."""
    import torch

    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def write_class(folder: Path, assignment: str = ASSIGNMENT) -> None:
    """Write the sample class of an assignment below a course's folder; files that are there stay unchanged."""
    from autograder.files import write_atomically
    from autograder.grade.grade import load_assignment

    loaded = load_assignment(assignment)
    for student, text in make_submissions(loaded.instructor, loaded.release, assignment).items():
        place = folder / "submitted" / student / assignment
        place.mkdir(parents=True, exist_ok=True)
        if text is not None:
            renamed = student == "omar"
            write_atomically(
                place / (f"Copy of {loaded.notebook} (1).ipynb" if renamed else f"{loaded.notebook}.ipynb"), text
            )
            for path in (place / name for name in loaded.files):
                if student != "ben" and not path.exists():
                    write_atomically(path, own_weights())


# Moodle's data of three students: number, name, id, e-mail address.
PRACTICE = (("101", "Ada Lovelace", "ada"), ("102", "Goran Horvat", "goran"), ("103", "Rosa Lind", "rosa"))
WORKSHEET = ("Identifier", "Full name", "ID number", "Email address", "Status", "Grade", "Maximum Grade")
WORKSHEET += ("Grade can be changed", "Last modified (submission)", "Last modified (grade)", "Feedback comments")


def write_downloads(folder: Path) -> None:
    """Write ASSIGNMENT.zip and ASSIGNMENT.csv as Moodle does: Ada is right, Goran has one mistake, Rosa has no notebook."""
    from autograder.grade.grade import load_assignment

    folder.mkdir(parents=True, exist_ok=True)
    for name in (ASSIGNMENT, "2_multihead"):
        loaded = load_assignment(name)
        files = make_submissions(loaded.instructor, loaded.release, name) | {"rosa": SIGN_IN}
        with zipfile.ZipFile(folder / f"{name}.zip", "w") as archive:
            for number, person, student in PRACTICE:
                archive.writestr(f"{person}_{number}_assignsubmission_file_/{loaded.notebook}.ipynb", files[student])
        with (folder / f"{name}.csv").open("w", encoding="utf-8-sig", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(WORKSHEET)
            for number, person, student in PRACTICE:
                state = ["Submitted for grading", "", "20.00", "Yes", "-", "-", ""]
                rows.writerow([f"Participant {number}", person, student, f"{student}@example.org", *state])


def main(*arguments: str) -> None:
    """Run one of the two commands at the top of this file."""
    if arguments[0] == "--moodle":
        write_downloads(Path(arguments[1]))
        return
    for each in CLASSES:
        write_class(Path(arguments[0]), each)


if __name__ == "__main__":
    main(*sys.argv[1:])
