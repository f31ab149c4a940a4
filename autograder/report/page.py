"""Common parts of all pages: templates, and the format of numbers."""

import hashlib
from base64 import b64encode
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder.files import showable

if TYPE_CHECKING:  # only pages need Jinja; a table of scores does not
    from jinja2 import Template


@cache
def page_template(name: str) -> "Template":
    """Return a template from templates/. It escapes everything that is not marked as safe, and all signs of control."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(Path(__file__).parent / "templates")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, finalize=_showable
    )
    environment.filters["csp_hash"] = lambda text: b64encode(hashlib.sha256(text.encode()).digest()).decode()
    environment.filters["words"] = lambda name: name.replace("_", " ")
    environment.filters["points"] = plain_number
    return environment.get_template(name)


def _showable(value: Any) -> Any:
    return type(value)(showable(str(value))) if isinstance(value, str) else value


def plain_number(number: float) -> float:
    """Return a number of points for display: 3 and 1.5, not 3.0."""
    return int(number) if number == int(number) else round(number, 2)
