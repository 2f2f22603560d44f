"""An unknown option is refused in our words, with the option that was probably meant."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import pytest

import recalljoin as rj

TEXT = "SELECT * FROM a [5 SEC], b [5 SEC] WHERE a.a = b.a"


@pytest.mark.parametrize(
    ("call", "given", "options", "message"),
    [
        (rj.Stream, ("o",), {"windw": 5}, "`Stream` has no option `windw`; did you mean `window`?"),
        (rj.Quality, (), {"recal": 0.9}, "`Quality` has no option `recal`; did you mean `recall`?"),
        (rj.Query, (), {"strems": []}, "`Query` has no option `strems`; did you mean `streams`?"),
        (rj.replay, (TEXT, {}), {"recal": 1}, "`replay` has no option `recal`; did you mean"),
        (rj.advise, (TEXT, {}), {"recal": 1}, "`advise` has no option `recal`; did you mean"),
        (rj.explain, (TEXT, {}), {"hwo": 1}, "`explain` has no option `hwo`; known options: `"),
    ],
)
def test_an_unknown_option_is_refused(
    call: Any, given: tuple[Any, ...], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(rj.InvalidSetting) as caught:
        call(*given, **options)
    assert str(caught.value).startswith(message)


def test_classes_stay_what_they_are() -> None:
    stream = rj.Stream("o", window="5 seconds")
    assert pickle.loads(pickle.dumps(stream)) == stream
    assert "window" in inspect.signature(rj.Stream).parameters
    assert "recall" in inspect.signature(rj.replay).parameters
