"""What can be written, and how a slip of the pen is answered."""

from __future__ import annotations

import pytest
from sqlglot import exp

from recalljoin.errors import InvalidQuery
from recalljoin.query.grammar import parse_condition, parse_outputs, parse_statement
from recalljoin.query.outline import RecallClause, Window
from recalljoin.query.trees import text_of


@pytest.mark.parametrize(
    "stream",
    ["orders o [5 SEC]", "orders AS o [5 SEC]", "orders [5 SEC] o", "orders [5 SEC] AS o"],
)
def test_the_window_stands_before_or_after_the_alias(stream: str) -> None:
    statement = parse_statement(f"SELECT * FROM {stream}, p [1 s]")
    assert statement.windows == (Window("5 SEC", None), Window("1 s", None))
    assert statement.select.args["from_"].this.alias == "o"


@pytest.mark.parametrize(
    ("bracket", "window"),
    [
        ("[5 SEC]", Window("5 SEC", None)),
        ("[300ms]", Window("300 ms", None)),
        ("[.5 sec]", Window(".5 sec", None)),
        ("[RANGE 5 SECONDS]", Window("5 SECONDS", None)),
        ("[range 1 minute 30 seconds]", Window("1 minute 30 seconds", None)),
        ("[5 SEC ON paid]", Window("5 SEC", "paid")),
        ('[5 SEC ON "paid at"]', Window("5 SEC", "paid at")),
        ("[5 /* five */ SEC]", Window("5 SEC", None)),
        ("[0 s]", Window("0 s", None)),
    ],
)
def test_windows_have_several_spellings(bracket: str, window: Window) -> None:
    assert parse_statement(f"SELECT * FROM a{bracket}, b [1 s]").windows[0] == window


def test_a_stream_may_come_without_window_here() -> None:
    assert parse_statement("SELECT * FROM a, b [1 s]").windows == (None, Window("1 s", None))


def test_windows_find_their_stream_through_all_kinds_of_joins() -> None:
    statement = parse_statement(
        "SELECT a.x IS DISTINCT FROM b.x FROM a [1 s] JOIN b ON left(a.x, 3) = b.x AND a.l[1] = 2 "
        "LEFT JOIN c [3 s] ON a.join = c.limit, d [4 s] CROSS JOIN e [5 s] WHERE a.l[2] = 1"
    )
    lengths = [window and window.duration for window in statement.windows]
    assert lengths == ["1 s", None, "3 s", "4 s", "5 s"]


@pytest.mark.parametrize(
    ("clause", "found"),
    [
        ("WITH RECALL 0.95", RecallClause("0.95", {})),
        ("with recall .95 over 1 minute", RecallClause(".95", {"period": "1 minute"})),
        ("WITH RECALL 1 MAX WAIT 10 S", RecallClause("1", {"max_wait": "10 S"})),
        (
            "WITH RECALL 1 INITIAL WAIT 10 S MIN WAIT 5 MS",
            RecallClause("1", {"initial_wait": "10 S", "min_wait": "5 MS"}),
        ),
        (
            "WITH RECALL 0.9 OVER 1 MIN 30 SEC EVERY 500 MS MAX WAIT 10 SECONDS ;",
            RecallClause(
                "0.9", {"period": "1 MIN 30 SEC", "interval": "500 MS", "max_wait": "10 SECONDS"}
            ),
        ),
        ("WITH RECALL -1", RecallClause("-1", {})),
        ("", None),
    ],
)
@pytest.mark.parametrize("where", ["", "WHERE a.x = b.x "])
def test_the_recall_closes_the_query(where: str, clause: str, found: RecallClause | None) -> None:
    assert parse_statement(f"SELECT * FROM a [1 s], b [1 s] {where}{clause}").recall == found


def test_text_and_comments_keep_brackets_and_keywords_to_themselves() -> None:
    statement = parse_statement(
        "SELECT * FROM a [1 s], -- [9 s] WITH RECALL 0.1\n"
        "b [2 s] WHERE a.x = '[5 SEC] WITH RECALL 0.5' /* WITH RECALL */ AND b.`y [3 s]` = 1 "
        'AND "with"."recall" = 2'
    )
    assert statement.windows == (Window("1 s", None), Window("2 s", None))
    assert statement.recall is None
    assert "[5 SEC] WITH RECALL 0.5" in [
        literal.this for literal in statement.select.find_all(exp.Literal)
    ]


def test_conditions_and_outputs_keep_the_text_they_were_read_from() -> None:
    statement = parse_statement(
        "SELECT a.x,  b.y AS Y FROM a [1 s] JOIN b [1 s] ON a.x=b.x OR (a.z) "
        "INNER JOIN c [1 s] ON c.x = a.x WHERE  a.x  !=  2 -- two\n WITH RECALL 0.9;"
    )
    assert statement.outputs == "a.x,  b.y AS Y"
    assert statement.conditions == ("a.x=b.x OR (a.z)", "c.x = a.x", "a.x  !=  2")


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ("window = 3 AND offset = 4", "window = 3 AND offset = 4"),
        ("a.limit = 3", "a.limit = 3"),
        ("left = right", '"left" = "right"'),
        ("(limit) = 3 OR left(a.x, 1) = 'y'", "(limit) = 3 OR left(a.x, 1) = 'y'"),
    ],
)
def test_keywords_may_be_names_of_columns(condition: str, text: str) -> None:
    statement = parse_statement(f"SELECT * FROM a [1 s] JOIN b [1 s] ON {condition}")
    (kept,) = statement.conditions
    assert parse_condition(kept) == statement.select.args["joins"][0].args["on"]
    assert kept.replace('"', "") == text.replace('"', "")


def test_messages_quote_what_was_written() -> None:
    tree = parse_condition(
        "a.x=1 AND   b.y BETWEEN 1 AND 2 and CASE WHEN a.b AND a.c THEN TRUE END"
    )
    parts = [tree.this.this, tree.this.expression, tree.expression]
    assert [text_of(part) for part in parts] == [
        "a.x=1",
        "b.y BETWEEN 1 AND 2",
        "CASE WHEN a.b AND a.c THEN TRUE END",
    ]
    assert [text_of(part) for part in parse_outputs("a.x+1,  f( a.y, 2 )")] == [
        "a.x+1",
        "f( a.y, 2 )",
    ]
    assert text_of(parse_condition("a.x = 1 -- one\n OR a.y = 2")) == "a.x = 1 OR a.y = 2"


def test_functions_stay_plain_names_with_arguments() -> None:
    names = ("dist", "levenshtein", "date_diff", "Position", "show", "overwrite", "abs")
    for name in (*names, "left", "date", "floor", "any_value", '"abs"', "replace"):
        call = parse_condition(f"{name}(a.x, b.y)")
        assert isinstance(call, exp.Anonymous)
        assert call.name == name.strip('"')
        assert call.sql(normalize_functions=False) == f"{call.name}(a.x, b.y)"


def test_calls_with_a_grammar_of_their_own_are_parsed_by_it() -> None:
    kinds = {
        "CAST(a.x AS DECIMAL(5, 2)) = 1": exp.Cast,
        "a.x::DECIMAL(5, 2) = 1": exp.Cast,
        "SUBSTRING(a.x FROM 2 FOR 3) = 'x'": exp.Substring,
        "TRIM(BOTH 'x' FROM a.x) = 'x'": exp.Trim,
        "EXTRACT(YEAR FROM a.x) = 1": exp.Extract,
        "IF (a.b, 1, 2) = 1": exp.If,
        "a.x IN (1, 2)": exp.In,
        "NOT (a.b)": exp.Not,
        "EXISTS (SELECT 1)": exp.Exists,
    }
    for text, kind in kinds.items():
        tree = parse_condition(text)
        assert tree.find(kind) is not None, text
        assert tree.find(exp.Anonymous) is None, text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "SELECT * FROM s1 [5 SEC",
            "syntax error in the query, line 1, column 18: the window's bracket is not closed; "
            "write `]` after it\n"
            "    SELECT * FROM s1 [5 SEC\n"
            "                     ^",
        ),
        (
            "SELECT *\nFROM s1 [5 SEC, s2]",
            "syntax error in the query, line 2, column 15: "
            "expected `]` to end the window, got `,`\n"
            "    FROM s1 [5 SEC, s2]\n"
            "                  ^",
        ),
        (
            "SELECT * FROM s1 [SEC 5]",
            "syntax error in the query, line 1, column 19: a window is a duration in brackets, "
            "such as `[5 SEC]`\n"
            "    SELECT * FROM s1 [SEC 5]\n"
            "                      ^^^",
        ),
        (
            "SELECT * FROM s1 [5 SEC ON]",
            "syntax error in the query, line 1, column 25: the name of the time column is missing "
            "after ON\n"
            "    SELECT * FROM s1 [5 SEC ON]\n"
            "                            ^^",
        ),
        (
            "SELECT * FROM s1 [ROWS 5]",
            "syntax error in the query, line 1, column 19: windows are lengths of time, "
            "not numbers of rows\n"
            "    SELECT * FROM s1 [ROWS 5]\n"
            "                      ^^^^",
        ),
        (
            "SELECT * FROM s1 [5 s] WITH RECALL OVER 1 MINUTE",
            "syntax error in the query, line 1, column 29: a number belongs after RECALL, "
            "such as `RECALL 0.95`\n"
            "    SELECT * FROM s1 [5 s] WITH RECALL OVER 1 MINUTE\n"
            "                                ^^^^^^",
        ),
        (
            "SELECT * FROM s1 [5 s] WITH RECALL 95% OVER 1 MINUTE",
            "syntax error in the query, line 1, column 38: recall is a share; "
            "write 0.95 for it\n"
            "    SELECT * FROM s1 [5 s] WITH RECALL 95% OVER 1 MINUTE\n"
            "                                         ^",
        ),
        (
            "SELECT * FROM s1 [5 s] WITH RECALL 0.9 OVER",
            "syntax error in the query, line 1, column 40: a duration belongs after `OVER`, "
            "such as `10 SECONDS`\n"
            "    SELECT * FROM s1 [5 s] WITH RECALL 0.9 OVER\n"
            "                                           ^^^^",
        ),
        (
            "SELECT * FROM s1 [5 s] WITH RECALL 0.9 OVER 1 MIN OVER 2 MIN",
            "syntax error in the query, line 1, column 51: this is written twice; "
            "keep one of the two\n"
            "    SELECT * FROM s1 [5 s] WITH RECALL 0.9 OVER 1 MIN OVER 2 MIN\n"
            "                                                      ^^^^",
        ),
        (
            "SELECT * FROM s1 [5 s] WITH RECAL 0.9",
            "syntax error in the query, line 1, column 29: what stands behind WITH is "
            "`RECALL 0.95 OVER 1 MINUTE`\n"
            "    SELECT * FROM s1 [5 s] WITH RECAL 0.9\n"
            "                                ^^^^^",
        ),
        (
            "SELECT * FROM s1 [5 s] WITH RECALL 0.9 OVR 1 MINUTE",
            "syntax error in the query, line 1, column 40: unexpected `OVR`: WITH RECALL closes "
            "the query; did you mean `OVER`?\n"
            "    SELECT * FROM s1 [5 s] WITH RECALL 0.9 OVR 1 MINUTE\n"
            "                                           ^^^",
        ),
        (
            "SELECT * FROM s1 [5 s] WITH RECALL 0.9 BELOW 1",
            "syntax error in the query, line 1, column 40: unexpected `BELOW`: "
            "WITH RECALL closes the query; known parts: `OVER`, `EVERY`, `MIN WAIT`, `MAX WAIT`, "
            "`INITIAL WAIT`, `NULL PRECISION`\n"
            "    SELECT * FROM s1 [5 s] WITH RECALL 0.9 BELOW 1\n"
            "                                           ^^^^^",
        ),
        (
            "SELECT * FROM s1 [5 s] WITH RECALL 0.9 WITH RECALL 0.8",
            "syntax error in the query, line 1, column 40: unexpected `WITH`: "
            "WITH RECALL closes the query; known parts: `OVER`, `EVERY`, `MIN WAIT`, `MAX WAIT`, "
            "`INITIAL WAIT`, `NULL PRECISION`\n"
            "    SELECT * FROM s1 [5 s] WITH RECALL 0.9 WITH RECALL 0.8\n"
            "                                           ^^^^",
        ),
        (
            "SELECT * FROM s1 [5 s] s2 [5 s]",
            "syntax error in the query, line 1, column 27: a stream has one window; "
            "a comma may be missing\n"
            "    SELECT * FROM s1 [5 s] s2 [5 s]\n"
            "                              ^",
        ),
        (
            "SELECT * FROM (SELECT * FROM x [1 s]) q, b [1 s]",
            "syntax error in the query, line 1, column 16: a query has one SELECT; "
            "join the stream instead\n"
            "    SELECT * FROM (SELECT * FROM x [1 s]) q, b [1 s]\n"
            "                   ^^^^^^",
        ),
        (
            "SELECT 1 UNION SELECT 2",
            "syntax error in the query, line 1, column 16: a query has one SELECT; "
            "join the stream instead\n"
            "    SELECT 1 UNION SELECT 2\n"
            "                   ^^^^^^",
        ),
        (
            "selct * from a",
            "syntax error in the query, line 1, column 1: a query starts with SELECT, got "
            "`selct`; did you mean `SELECT`?\n    selct * from a\n    ^^^^^",
        ),
        (
            "DROP TABLE a",
            "syntax error in the query, line 1, column 1: a query starts with SELECT, got "
            "`DROP`; write SELECT ... FROM ... WHERE ...\n    DROP TABLE a\n    ^^^^",
        ),
        (
            "SELECT * FROM",
            "syntax error in the query, line 1, column 14: something is missing after `FROM`\n"
            "    SELECT * FROM\n"
            "                 ^",
        ),
        (
            "SELECT *\nFROM a [1 s]\n\tWHERE (a.x = 1",
            "syntax error in the query, line 3, column 16: `)` is missing after `1`\n"
            "     WHERE (a.x = 1\n"
            "                   ^",
        ),
        (
            "SELECT * FROM a [1 s] WHERE a.x = AND a.y = 1",
            "syntax error in the query, line 1, column 35: something is missing before `AND`\n"
            "    SELECT * FROM a [1 s] WHERE a.x = AND a.y = 1\n"
            "                                      ^^^",
        ),
        (
            "SELECT * FROM a [1 s] WHERE a.x = 'abc",
            "syntax error in the query, line 1, column 35: the quote ' is not closed\n"
            "    SELECT * FROM a [1 s] WHERE a.x = 'abc\n"
            "                                      ^",
        ),
        (
            "SELECT 'it''s', \"q\" -- don't\n, `x FROM a",
            "syntax error in the query, line 2, column 3: the quote ` is not closed\n"
            "    , `x FROM a\n"
            "      ^",
        ),
        (
            "SELECT /* /* */ * FROM a",
            "syntax error in the query, line 1, column 11: the comment is not closed\n"
            "    SELECT /* /* */ * FROM a\n"
            "              ^^",
        ),
        (
            "SELECT * /* all FROM a",
            "syntax error in the query, line 1, column 10: the comment is not closed\n"
            "    SELECT * /* all FROM a\n"
            "             ^^",
        ),
        ("  ", "the query is empty; write it out or leave it away"),
        (
            "SELECT * FROM a [1 s]; SELECT * FROM b [1 s]",
            "syntax error in the query, line 1, column 22: another statement begins here; "
            "write one at a time\n"
            "    SELECT * FROM a [1 s]; SELECT * FROM b [1 s]\n"
            "                         ^",
        ),
        (
            "SELECT * FROM a [1 s] WHERE " + "(" * 2000 + "TRUE" + ")" * 2000,
            "the query is nested too deeply; drop parentheses or split it",
        ),
    ],
)
def test_a_syntax_error_marks_its_place(text: str, message: str) -> None:
    with pytest.raises(InvalidQuery) as caught:
        parse_statement(text)
    assert str(caught.value) == message
    assert caught.value.__cause__ is None


def test_a_condition_on_its_own_is_marked_in_its_own_text() -> None:
    with pytest.raises(InvalidQuery) as caught:
        parse_condition("a.x = b.x b.y = 3")
    assert str(caught.value) == (
        "syntax error in the condition, line 1, column 11: unexpected `b`\n"
        "    a.x = b.x b.y = 3\n"
        "              ^"
    )


def test_outputs_on_their_own_are_marked_in_their_own_text() -> None:
    with pytest.raises(InvalidQuery) as caught:
        parse_outputs("a.x b c, a.y")
    assert str(caught.value) == (
        "syntax error in the select, line 1, column 7: unexpected `c`\n"
        "    a.x b c, a.y\n"
        "          ^"
    )


def test_outputs_hold_no_other_clause() -> None:
    with pytest.raises(InvalidQuery) as caught:
        parse_outputs("a.x FROM a")
    assert str(caught.value) == (
        "`select` must be a list of outputs and nothing else, got 'a.x FROM a'; "
        "write for example 's1.a1, s2.ts AS t'"
    )
