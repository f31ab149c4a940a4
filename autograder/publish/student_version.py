"""The student version: a separate repository with book and exercises, and without answers.

It contains the pages, without the parts for instructors, and the released notebooks. All addresses are the instructor's
own. The templates in `students/` give the files for publishing, opening and running it.
"""

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import nbformat
import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from nbgrader.utils import compute_checksum

from autograder.imports import ROOT
from autograder.publish.chapters import build_chapters
from autograder.publish.generated import exercise_of, sources_of, stale
from autograder.publish.tests_wheel import FOLDER, WHEEL, files_of_package, wheel_of
from autograder.settings import Settings, web_address

LABEL = ".student-version"  # this file marks a folder that may be overwritten
NOT_FOR_STUDENTS = re.compile(r"^<!-- not for students -->\n.*?^<!-- to here -->\n", re.M | re.S)
PAGES_LEFT_OUT = re.compile(r"instructors.*|attacks|after_.*|wrong_lines")
# The output of browser_model.py exists already.
FILES_LEFT_OUT = ("browser_model.py", "generated.json", "grading.json", "README.md")
COPIED = ("LICENSE", "LICENSE-TEXT", "CITATION.cff")
TEXTS = (".md", ".bib", ".js", ".css", ".json", ".py", ".cff")
# The packages that build the book, in the versions of requirements.txt.
OF_BOOK = """torch torchvision numpy scipy matplotlib scikit-learn einops ipykernel jupyter-book sphinx sphinx-book-theme
sphinx-design sphinxcontrib-bibtex math-core pydata-sphinx-theme myst-nb myst-parser jupyter-cache pybtex"""
OF_NOTEBOOKS = "torch torchvision numpy scipy matplotlib scikit-learn jupyterlab"


def write_student_version(folder: Path, settings: Settings) -> list[str]:
    """Write the student version of this repository.

    Args:
        folder: The target: an empty folder, or one that this function wrote and now writes again. Its `.git` stays.
        settings: The course: its name, addresses, due dates, and the assignments to include, by default all.

    Returns:
        The included assignments.

    Raises:
        ValueError: the settings lack an address, an assignment is unknown, or the folder holds something else.
    """
    if not settings.is_on_github:
        raise ValueError(
            'course.toml has to say where the student version will be: repository = "https://github.com/YOU/COURSE". '
            "Colab opens notebooks only from GitHub" + (f", not from {settings.repository}" * bool(settings.repository))
        )
    selected = sources_of(*settings.assignments)
    if old := stale():
        raise ValueError(f'{old[0]} is stale: its sources changed. Run "make exercises"')
    folder = folder.resolve()
    if folder.exists() and any(folder.iterdir()) and not (folder / LABEL).exists():
        raise ValueError(f"{folder} is not empty, and not a student version; name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.name != ".git":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    _StudentVersion(folder, settings, sorted(selected.values())).write()
    if not (folder / ".git").exists() and shutil.which("git"):
        subprocess.run(["git", "init", "-q", "-b", settings.branch, str(folder)], check=True)
    return sorted(selected)


class _StudentVersion:
    """Writes the student version into one folder."""

    def __init__(self, folder: Path, settings: Settings, selected: list[Path]) -> None:
        self.folder, self.settings = folder, settings
        self.exercises = {source.parent.name: exercise_of(source) for source in selected}
        self.config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
        others = {f"{name}_exercise" for name in sources_of() if name not in self.exercises}
        pages = sorted(path.stem for path in ROOT.glob("book/*.md"))
        self.left_out = others | {page for page in pages if PAGES_LEFT_OUT.fullmatch(page)}
        self.pages = [page for page in pages if page not in self.left_out]

    def write(self) -> None:
        """Write everything."""
        self._put(
            LABEL,
            'Written by "autograder student-version --students". Changes here are lost when it runs again.\n',
        )
        for name in COPIED:
            self._put(name, (ROOT / name).read_text(encoding="utf-8"))
        self._put("_config.yml", self._configuration())
        self._put("_toc.yml", self._table_of_contents())
        for path in self._files_of_book():
            place = path.relative_to(ROOT)
            if path.suffix in TEXTS:
                self._put(place, path.read_text(encoding="utf-8"))
            else:
                (self.folder / place).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, self.folder / place)
        for page in self.pages:
            self._put(f"book/{page}.md", self._page(page))
        for path, text in build_chapters(self.folder).items():
            self._put(path.relative_to(self.folder), text)
        address = self._put_tests()
        for place in self.exercises.values():
            notebook = nbformat.reads(self._with_own_addresses((ROOT / place).read_text(encoding="utf-8")), 4)
            for cell in notebook.cells:
                if "tests" in cell.metadata:
                    cell.source = re.sub(r"https://\S+\.whl#\S+", address, cell.source)
                if "nbgrader" in cell.metadata:
                    cell.metadata.nbgrader.checksum = compute_checksum(cell)
            self._put(place, nbformat.writes(notebook) + "\n")
        self._put_files_for_running()

    def _put_tests(self) -> str:
        """Write the package of the visible tests, as a folder and as one file; return the address of the file."""
        for name in files_of_package(ROOT):
            if not name.endswith(".json") or Path(name).stem in {place.stem for place in self.exercises.values()}:
                self._put(FOLDER / name, (ROOT / FOLDER / name).read_text(encoding="utf-8"))
        content = wheel_of(self.folder)
        (self.folder / "exercises" / WHEEL).write_bytes(content)
        return f"{self._address_of_tests()}#sha256={hashlib.sha256(content).hexdigest()}"

    def _address_of_tests(self) -> str:
        return f"{self.settings.repository}/raw/{self.settings.branch}/exercises/{WHEEL}"

    def _put(self, place: str | Path, text: str) -> None:
        """Write a text, with the instructor's addresses instead of this repository's."""
        path = self.folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._with_own_addresses(text), encoding="utf-8")

    def _with_own_addresses(self, text: str) -> str:
        published = self.config["html"]["baseurl"].rstrip("/") + "/"
        text = text.replace(published + WHEEL, self._address_of_tests())
        text = text.replace(published, self.settings.address_of_book)
        old, new = web_address(self.config["repository"]["url"]), self.settings.repository
        before, now = ("/".join(address.split("/")[-2:]) for address in (old, new))
        # Notebooks on Colab look for records at this address.
        text = text.replace(f"{before}/{self.config['repository']['branch']}/", f"{now}/{self.settings.branch}/")
        return text.replace(old, new)

    def _configuration(self) -> str:
        text = (ROOT / "_config.yml").read_text(encoding="utf-8")
        text = re.sub(r"(?m)^(  url: ).*", rf"\g<1>{self.settings.repository}", text)
        return re.sub(r"(?m)^(  branch: ).*", rf"\g<1>{self.settings.branch}", text)

    def _table_of_contents(self) -> str:
        contents = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
        for part in contents["parts"]:
            part["chapters"] = [each for each in part["chapters"] if Path(each["file"]).name not in self.left_out]
        contents["parts"] = [part for part in contents["parts"] if part["chapters"]]
        return yaml.safe_dump(contents, sort_keys=False, allow_unicode=True)

    def _files_of_book(self) -> list[Path]:
        """Return the files of the book except its pages and their notebooks."""
        files = [path for path in sorted(ROOT.glob("book/**/*")) if path.is_file() and "__pycache__" not in path.parts]
        of_pages = [path for path in files if path.parent.name == "book" and path.suffix in (".md", ".ipynb")]
        return [path for path in files if path not in of_pages and path.name not in FILES_LEFT_OUT]

    def _page(self, name: str) -> str:
        """Return a page as students read it."""
        text = (ROOT / "book" / f"{name}.md").read_text(encoding="utf-8")
        text = NOT_FOR_STUDENTS.sub("", text)
        text = re.sub(r"(?m)^[|-].*\{colab\}`[^`]*<(exercises/[^>]+)>`.*\n", self._keep_if_included, text)
        text = re.sub(r"\{(?:colab|repo)\}`(?:[^`<]*<)?((?:exercises|book)/[^>`]+)>?`", self._keep_if_included, text)
        text = re.sub(r"\[([^\]]*)\]\((\w+)\.md(?:#[\w-]+)?\)", lambda m: m[1] if m[2] in self.left_out else m[0], text)
        if due := self._due(name.removesuffix("_exercise")):
            text = text.replace("\n:::\n", f"\n:::\n\n**Submit until {due}.**\n", 1)
        return text

    def _due(self, exercise: str) -> str:
        """Return when an exercise is due, in words; an empty text if there is no date."""
        due = self.settings.due.get(exercise)
        return f"{due.day} {due:%B %Y, %H:%M} {due.tzname()}" if due else ""

    def _keep_if_included(self, match: re.Match) -> str:
        path = Path(match[1])
        included = path in self.exercises.values() if path.parts[0] == "exercises" else path.stem in self.pages
        return match[0] if included else ""

    def _put_files_for_running(self) -> None:
        lock = (ROOT / "requirements.txt").read_text(encoding="utf-8")
        locked = dict(re.findall(r"(?m)^([a-z][\w.-]*)==([^\s;]+)", lock))
        of_book, of_notebooks = (
            [f"{each}=={locked[each]}" for each in names.split()] for names in (OF_BOOK, OF_NOTEBOOKS)
        )
        pinned = re.sub(r"(?m) \\$|^ +--hash.*\n?|^#.*\n", "", lock)
        self._put("constraints.txt", re.sub(r"\n{2,}", "\n", pinned))
        self._put("requirements.txt", "\n".join(["-c constraints.txt", *of_book]) + "\n")
        self._put("binder/requirements.txt", "\n".join(of_notebooks) + "\n")
        self._put("binder/runtime.txt", "python-3.11\n")
        templates = Environment(
            loader=FileSystemLoader(Path(__file__).parent / "students"),
            undefined=StrictUndefined,
            keep_trailing_newline=True,
            trim_blocks=True,
            variable_start_string="<<",
            variable_end_string=">>",
        )
        about = {
            "settings": self.settings,
            "title": self.config["title"],
            "exercises": list(map(self._about, self.exercises)),
        }
        places = {
            "README.md": "README.md",
            "publish.yml": ".github/workflows/publish.yml",
            "check.yml": ".github/workflows/check.yml",
            "check.py": ".github/check.py",
            "devcontainer.json": ".devcontainer/devcontainer.json",
            "gitignore": ".gitignore",
        }
        for template, place in places.items():
            self._put(place, templates.get_template(template).render(**about))

    def _about(self, name: str) -> dict[str, object]:
        """Return what the README says about an exercise."""
        place = self.exercises[name]
        page = (ROOT / "book" / f"{name}_exercise.md").read_text(encoding="utf-8")
        notebook = nbformat.reads((ROOT / place).read_text(encoding="utf-8"), 4)
        points = sum(cell.metadata.get("nbgrader", {}).get("points", 0) for cell in notebook.cells)
        colab = self.config["launch_buttons"]["colab_url"]
        on_host = f"{self.settings.repository}/blob/{self.settings.branch}/{place.as_posix()}"
        return {
            "title": re.match(r"# (.*)", page)[1],
            "page": f"{self.settings.address_of_book}book/{name}_exercise.html",
            "colab": on_host.replace("https://github.com", f"{colab}/github"),
            "points": f"{points:g}",
            "due": self._due(name),
        }
