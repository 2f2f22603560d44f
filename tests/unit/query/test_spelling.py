from __future__ import annotations

from recalljoin.query.spelling import did_you_mean, listed, shortened, way_out


def test_a_near_miss_finds_what_was_meant_whatever_the_case() -> None:
    assert did_you_mean("AMOUT", ["id", "Amount"]) == "Amount"
    assert did_you_mean("price", ["id", "amount"]) is None


def test_the_way_out_is_a_likely_name_or_all_there_are() -> None:
    assert way_out("amout", ["id", "amount"], known_as="columns") == "did you mean `amount`?"
    assert way_out("price", ["id"], known_as="columns") == "known columns: `id`"
    assert way_out("price", [], known_as="columns") == "there are no columns"


def test_names_are_listed_in_backticks() -> None:
    assert listed([]) == ""
    assert listed(["a"], last=" and ") == "`a`"
    assert listed(["a", "b", "c"], last=" and ") == "`a`, `b` and `c`"


def test_quotes_fit_on_one_line() -> None:
    assert shortened("a =\n   b") == "a = b"
    long = shortened("x" * 60 + "y" * 60)
    assert len(long) <= 90
    assert long.startswith("xxx")
    assert " ... " in long
    assert long.endswith("yyy")
