from __future__ import annotations

import pickle

import pytest

from recalljoin import errors
from recalljoin.errors import InvalidQuery, InvalidTarget, RecallJoinError


@pytest.mark.parametrize(
    ("name", "built_in"),
    [
        ("InvalidQuery", ValueError),
        ("InvalidTarget", InvalidQuery),
        ("InvalidSetting", ValueError),
        ("StateVersionError", ValueError),
        ("DatasetError", ValueError),
        ("FunctionError", RuntimeError),
        ("TooManyResults", OverflowError),
    ],
)
def test_each_error_is_ours_and_what_a_caller_would_expect(
    name: str, built_in: type[Exception]
) -> None:
    kind = getattr(errors, name)
    assert issubclass(kind, RecallJoinError)
    assert issubclass(kind, built_in)


def test_a_single_fault_is_the_whole_message() -> None:
    error = InvalidQuery("stream `s1` has no window")
    assert str(error) == "stream `s1` has no window"
    assert error.faults == ("stream `s1` has no window",)


def test_several_faults_are_numbered_and_their_lines_stay_together() -> None:
    error = InvalidQuery(["first\n    with a mark", "second"])
    assert str(error) == "2 faults:\n  1. first\n         with a mark\n  2. second"


def test_faults_survive_the_way_between_processes() -> None:
    error = pickle.loads(pickle.dumps(InvalidTarget(["first", "second"])))
    assert isinstance(error, InvalidTarget)
    assert error.faults == ("first", "second")
    assert str(error) == "2 faults:\n  1. first\n  2. second"
