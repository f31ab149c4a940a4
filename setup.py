"""Put the repository into the wheel, so that an installed `autograder` can write it into an empty folder."""

import zipfile
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

FOLDERS = ("autograder", "book", "exercises", "solutions", "tests")
SUFFIXES = (".py", ".md", ".ipynb", ".json", ".pt", ".png", ".svg", ".js", ".css", ".bib", ".j2", ".yml", "")


class WithRepository(build_py):
    """Builds the package as ever, and next to it autograder/repository.zip."""

    def run(self) -> None:
        """Build."""
        super().run()
        if self.editable_mode:
            return
        root = Path(__file__).parent
        files = [path for path in root.iterdir() if path.is_file() and not path.name.startswith(".git")]
        files += [path for folder in FOLDERS for path in (root / folder).rglob("*") if path.is_file()]
        with zipfile.ZipFile(
            Path(self.build_lib, "autograder", "repository.zip"), "w", zipfile.ZIP_DEFLATED
        ) as archive:
            for path in sorted(files):
                if path.suffix in (*SUFFIXES, ".toml", ".txt", ".cff") and "__pycache__" not in path.parts:
                    archive.write(path, path.relative_to(root))


setup(cmdclass={"build_py": WithRepository})
