"""Texts and bytes that are nearly right: what somebody mistyped, or a disk has lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Sequence

ODD = st.sampled_from(
    ["", "\x00", "'", '"', "`", "\\", "[", "]", "(", ")", "((((", "{", "}", "${X}", "-", "--", "/*",
     ";", ",", "\n", "9" * 400, "1e999", "-0", "NaN", "null", "\ud7ff", "é", "😀", "%s", "0x", "."]
)  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn, texts: Sequence[str]) -> str:
    """One of the texts with a few pieces cut out, doubled, or put in."""
    text = draw(st.sampled_from(texts))
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, len(text)))
        end = draw(st.integers(begin, min(len(text), begin + 12)))
        piece = draw(st.one_of(ODD, st.text(max_size=6), st.just(text[begin:end] * 2)))
        text = text[:begin] + piece + text[end:]
    return text


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """The bytes with some of them changed, cut out or cut off."""
    kind = draw(st.sampled_from(["cut off", "cut out", "changed", "put in"]))
    at = draw(st.integers(0, max(len(content) - 1, 0)))
    if kind == "cut off":
        return content[:at]
    n = draw(st.integers(1, 16))
    if kind == "cut out":
        return content[:at] + content[at + n :]
    odd = draw(st.binary(min_size=1, max_size=16))
    return content[:at] + odd + content[at + (len(odd) if kind == "changed" else 0) :]


def soup(tokens: Sequence[str], *, most: int = 25) -> st.SearchStrategy[str]:
    """Tokens in any order."""
    return st.lists(st.sampled_from(tokens), max_size=most).map(" ".join)
