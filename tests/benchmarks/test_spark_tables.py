"""The page with the measurements on Spark: tables made again take the place of the old ones."""

from __future__ import annotations

from benchmarks.measure import Report
from benchmarks.spark_join import SECTION, with_tables

PAGE = f"""# Performance

Other tables.

{SECTION}

Made somehow.

### a batch

| old |

### whole runs

| kept |
"""


def test_a_table_made_again_replaces_the_old_one_and_leaves_all_others() -> None:
    report = Report("On Spark: a batch", ("ms",))
    report.add("381")
    page = with_tables(PAGE, [report])
    assert page.count(SECTION) == 1
    assert "| old |" not in page
    assert "| 381 |" in page
    assert page.index("### a batch") < page.index("Measured: ") < page.index("### whole runs")
    assert "| kept |" in page
    assert page.startswith("# Performance\n\nOther tables.\n")
    # Once more, with the same tables, nothing changes.
    assert with_tables(page, [report]) == page


def test_a_new_table_comes_last() -> None:
    report = Report("On Spark: memory", ("MB",))
    report.add("640")
    assert with_tables(PAGE, [report]).index("### whole runs") < with_tables(PAGE, [report]).index(
        "### memory"
    )
