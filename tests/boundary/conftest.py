"""Kernels for the tests of the boundary, forked and fresh."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from autograder.boundary.kernel import Kernel
from autograder.boundary.sandbox import Limits


@pytest.fixture(
    scope="module", params=[pytest.param(True, id="forked"), pytest.param(False, id="fresh", marks=pytest.mark.deep)]
)
def forked(request: pytest.FixtureRequest) -> bool:
    """Whether kernels are forked from a warm parent, or started afresh: what holds for one holds for the other."""
    return request.param


@pytest.fixture(scope="module")
def kernel(forked: bool) -> Iterator[Kernel]:
    """A kernel in the sandbox, shared by the tests that leave it alive."""
    before = os.environ.get("AUTOGRADER_SEED")
    os.environ["AUTOGRADER_SEED"] = "314159"
    kernel = Kernel(Limits(forked=forked))
    yield kernel
    kernel.close()
    if before is None:
        del os.environ["AUTOGRADER_SEED"]
    else:
        os.environ["AUTOGRADER_SEED"] = before


@pytest.fixture
def start(forked: bool) -> Iterator[Callable[..., Kernel]]:
    """Return a function that starts a kernel with limits of its own; all are closed after the test."""
    kernels = []

    def start_kernel(**limits: Any) -> Kernel:
        kernels.append(Kernel(Limits(forked=forked, **limits)))
        return kernels[-1]

    yield start_kernel
    for kernel in kernels:
        kernel.close()
