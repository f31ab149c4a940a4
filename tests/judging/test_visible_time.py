"""Is a visible test done in two seconds of a Colab processor, the first time too?"""

import json
import subprocess
import sys

from conftest import ALL

SECONDS = 2.0
CALIBRATION = 0.1  # seconds that the loop below takes on a processor of Colab's, at least
MEASURE = """
import contextlib, io, json, sys, time
from autograder.judging.compare import judge
from autograder.judging.exercise import exercises_of, seeded

before = time.process_time()
sum(number * number for number in range(1_500_000))
unit, found = time.process_time() - before, {}
with seeded(0):
    for stem in sys.argv[1:]:
        for each in (each for each in exercises_of(stem).values() if each.visible_cases()):
            before, known = time.process_time(), set(sys.modules)
            judge(each.probe(getattr(each.answers, each.name)), each.names, each.visible_cases(), {})
            new = sorted({name.partition(".")[2].partition(".")[0] for name in set(sys.modules) - known if "torch." in name})
            found[each.name] = (time.process_time() - before) / unit, new
print(json.dumps(found))
"""


def test_visible_test_is_quick() -> None:
    """Does each take at most two seconds of a Colab processor in a fresh process, and import no compiler?"""
    ran = subprocess.run([sys.executable, "-c", MEASURE, *ALL.values()], capture_output=True, text=True, check=True)
    found = json.loads(ran.stdout.splitlines()[-1])
    assert {name: round(time, 1) for name, (time, _) in found.items() if time * CALIBRATION > SECONDS} == {}
    assert {name: new for name, (_, new) in found.items() if {"_dynamo", "_inductor"} & set(new)} == {}
    assert len(found) > 25
