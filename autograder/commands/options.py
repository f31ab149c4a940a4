"""Arguments and options that several commands take, described once."""

from pathlib import Path
from typing import Annotated

import typer

CourseOption = Annotated[
    Path, typer.Option("--course", help="The folder of the course: submitted/, gradebook.db, feedback/ …")
]
AssignmentArgument = Annotated[str, typer.Argument(help="The name of an assignment, such as 1_attention.")]
AssignmentsArgument = Annotated[
    list[str] | None, typer.Argument(help="Names of assignments, such as 1_attention.", show_default=False)
]
AllOption = Annotated[bool, typer.Option("--all", help="Every assignment that somebody has submitted.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]
ShowOption = Annotated[
    bool, typer.Option("--show-hidden-tests", help="Let students see the source of the hidden tests.")
]
WorksheetOption = Annotated[
    Path | None, typer.Option(help="Moodle's grading worksheet or Canvas's gradebook export, as it was downloaded.")
]

COURSE = Path("course")  # the default folder
