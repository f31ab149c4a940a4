"""Is the table of the book that of the recorded benchmark?"""

import json

import bench_grading


def test_page_shows_the_record() -> None:
    """Does the book show the figures of the record?"""
    text = bench_grading.PAGE.read_text(encoding="utf-8")
    shown = text.partition(bench_grading.BEGIN)[2].partition(bench_grading.END)[0].strip()
    found = json.loads(bench_grading.RECORD.read_text(encoding="utf-8"))
    assert shown == bench_grading.page_of(found), 'run "python tests/grade/bench_grading.py --publish"'
