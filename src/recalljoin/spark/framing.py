"""What is kept between batches, with a checksum: bodies of tuples behind a head, and JSON texts."""

from __future__ import annotations

import json
import struct
import zlib
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_CHECKSUM = ', "checksum": '


def framed(head: Mapping[str, Any], groups: Sequence[Sequence[bytes]]) -> bytes:
    """Groups of bodies as one value, behind a head that says where each body ends."""
    lengths = [[len(body) for body in bodies] for bodies in groups]
    bodies = [body for group in groups for body in group]
    text = json.dumps({**head, "lengths": lengths})
    total = zlib.crc32(text.encode())
    for body in bodies:
        total = zlib.crc32(body, total)
    sealed = f"{text[:-1]}{_CHECKSUM}{total}}}".encode()
    return b"".join((struct.pack("<q", len(sealed)), sealed, *bodies))


def unframed(content: bytes) -> tuple[dict[str, Any], list[list[memoryview]]]:
    """Head and groups of :func:`framed`; the bodies refer to ``content`` without a copy.

    Raises
    ------
    ValueError
        When the bytes are damaged.
    """
    (size,) = struct.unpack_from("<q", content)
    at = 8 + size
    view = memoryview(content)
    text, mark, total = content[8:at].decode().rpartition(_CHECKSUM)
    if not mark:
        # Written before there was a checksum.
        text = content[8:at].decode()
    elif zlib.crc32(view[at:], zlib.crc32(f"{text}}}".encode())) != int(total[:-1]):
        message = "its checksum is another"
        raise ValueError(message)
    else:
        text += "}"
    head: dict[str, Any] = json.loads(text)
    groups = []
    for lengths in head.pop("lengths"):
        ends = np.cumsum([at, *lengths]).tolist()
        groups.append([view[begin:end] for begin, end in pairwise(ends)])
        at = ends[-1]
    return head, groups


def sealed(text: str) -> str:
    """A JSON object as text, with a checksum as its last value.

    Examples
    --------
    >>> sealed('{"k": 5}')
    '{"k": 5, "checksum": 1045850357}'
    >>> unsealed(sealed('{"k": 5}'))
    '{"k": 5}'
    """
    return f"{text[:-1]}{_CHECKSUM}{zlib.crc32(text.encode())}}}"


def unsealed(text: str) -> str:
    """The text of :func:`sealed`; a text without a checksum is taken as it is.

    Raises
    ------
    ValueError
        When the text is damaged.
    """
    content, mark, total = text.rpartition(_CHECKSUM)
    if not mark:
        return text
    content += "}"
    if total != f"{zlib.crc32(content.encode())}}}":
        message = "its checksum is another"
        raise ValueError(message)
    return content
