"""Arguments and options that several commands take, described once."""

from pathlib import Path
from typing import Annotated

import typer

CourseOption = Annotated[
    Path, typer.Option("--course", help="The folder of the course, with submitted/, gradebook.db, feedback/ …")
]
AssignmentArgument = Annotated[str, typer.Argument(help="The name of an assignment, such as 1_attention.")]
AssignmentsArgument = Annotated[
    list[str] | None, typer.Argument(help="Names of assignments, such as 1_attention.", show_default=False)
]
AllOption = Annotated[bool, typer.Option("--all", help="All assignments with submissions.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")]
ShowOption = Annotated[bool, typer.Option("--show-hidden-tests", help="Show students the source of the hidden tests.")]
WorksheetOption = Annotated[
    Path | None, typer.Option(help="Moodle's grading worksheet or Canvas's exported gradebook, unchanged.")
]

COURSE = Path("course")  # the default folder
