from __future__ import annotations

import pyarrow as pa
import pytest

from recalljoin.query.expressions import Call, Column, Literal
from recalljoin.query.scope import Name, Scope, UnknownName

ADDRESS = pa.struct({"city": pa.string(), "geo": pa.struct({"lat": pa.float64()})})
ORDERS = pa.schema({"ts": pa.int64(), "id": pa.int64(), "address": ADDRESS, "Total": pa.int8()})
PAYMENTS = pa.schema([("ts", pa.int64()), ("paid", pa.int64()), ("x", pa.int8()), ("x", pa.int8())])
SCOPE = Scope(["o", "p"], [ORDERS, PAYMENTS])


def names(dotted: str) -> list[Name]:
    return [Name(part.strip('"'), part.startswith('"')) for part in dotted.split(".")]


def problem(dotted: str, scope: Scope = SCOPE) -> str:
    with pytest.raises(UnknownName) as caught:
        scope.resolve(names(dotted))
    return str(caught.value)


@pytest.mark.parametrize(
    ("dotted", "column"),
    [
        ("o.id", Column(0, "id", pa.int64())),
        ("O.ID", Column(0, "id", pa.int64())),
        ("id", Column(0, "id", pa.int64())),
        ("PAID", Column(1, "paid", pa.int64())),
        ("o.total", Column(0, "Total", pa.int8())),
        ('"o"."Total"', Column(0, "Total", pa.int8())),
    ],
)
def test_names_find_their_column(dotted: str, column: Column) -> None:
    assert SCOPE.resolve(names(dotted)) == column


def test_fields_of_structs_are_reached_through_their_stream() -> None:
    address = Column(0, "address", ADDRESS)
    city = Call("field", (address, Literal("city", pa.string())), pa.string())
    assert SCOPE.resolve(names("o.address.city")) == city
    geo = Call("field", (address, Literal("geo", pa.string())), ADDRESS.field("geo").type)
    lat = Call("field", (geo, Literal("lat", pa.string())), pa.float64())
    assert SCOPE.resolve(names("o.Address.GEO.lat")) == lat


@pytest.mark.parametrize(
    ("dotted", "message"),
    [
        ("q.id", "no stream `q` in FROM; known streams: `o`, `p`"),
        ("o.idd", "stream `o` has no column `idd`; did you mean `id`?"),
        ("o.q", "stream `o` has no column `q`; known columns: `ts`, `id`, `address`, `Total`"),
        ("ts", "column `ts` is in streams `o` and `p`; write `o.ts` or `p.ts`"),
        ("pait", "no stream has a column `pait`; did you mean `paid`?"),
        (
            '"paid up"',
            "no stream has a column `paid up`; "
            "if it is meant as text, write 'paid up' in single quotes",
        ),
        (
            'o."total"',
            "stream `o` has no column `total`; "
            "if it is meant as text, write 'total' in single quotes",
        ),
        ("p.x", "stream `p` has several columns `x`; rename all but one of them"),
        ("o.address.town", "`o.address` has no field `town`; known fields: `city`, `geo`"),
        ("o.address.geo.lon", "`o.address.geo` has no field `lon`; known fields: `lat`"),
        ("o.id.x", "`o.id` is int64 and has no field `x`; leave it out"),
        (
            "address.city",
            "no stream `address` in FROM; a field of column `address` is `o.address...`",
        ),
    ],
)
def test_what_is_not_found_is_answered_with_the_way_out(dotted: str, message: str) -> None:
    assert problem(dotted) == message


def test_columns_of_an_unknown_schema_may_all_exist() -> None:
    scope = Scope(["o", "p"], [ORDERS, None])
    assert scope.resolve(names("p.anything")) is None
    assert scope.resolve(names("anything")) is None
    assert scope.resolve(names("id")) is None, "the other stream may have an id, too"
    assert problem("q.anything", scope) == "no stream `q` in FROM; known streams: `o`, `p`"
