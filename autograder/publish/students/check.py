"""Run the visible tests of each exercise, and report the results.

The workflow runs this file at every push. You can run it yourself: python .github/check.py. It gives no points, and has
no hidden tests. If you have not begun an exercise, its test does not pass, but the check does not fail. A bonus that
you have not begun is not counted.
"""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient


def results_of(path: Path) -> dict[str, str]:
    """Run a notebook from top to bottom; return the message of each visible test, or "" if it passes."""
    notebook = nbformat.read(path, 4)
    client = NotebookClient(
        notebook, timeout=1800, allow_errors=True, resources={"metadata": {"path": str(path.parent)}}
    )
    client.execute()
    messages = {}
    for cell in notebook.cells:
        about = cell.metadata.get("nbgrader", {})
        name, others = about.get("grade_id", ""), about.get("solution") or about.get("grade")  # answers, hidden tests
        printed = "".join(output.get("text", "") for output in cell.get("outputs", []))
        left_out = "left unwritten, it costs nothing" in printed  # an unwritten bonus
        if cell.cell_type == "code" and name.startswith("test_") and not others and not left_out:
            errors = [output for output in cell.outputs if output.output_type == "error"]
            messages[name.removeprefix("test_")] = f"{errors[0].ename}: {errors[0].evalue}" if errors else ""
    return messages


def main() -> None:
    """Check every notebook below exercises/, or only the notebooks named as arguments."""
    failed = False
    for path in [Path(name) for name in sys.argv[1:]] or sorted(Path("exercises").glob("*/*.ipynb")):
        messages = results_of(path)
        begun = {name: message for name, message in messages.items() if not message.endswith("not written yet.")}
        print(f"{path}: {sum(not message for message in begun.values())} of {len(messages)} visible tests pass")
        for name, message in begun.items():
            if message:
                failed = True
                print(f"  {name}: {message}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
