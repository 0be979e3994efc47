"""The four scenarios of Colby et al. end to end: every step leaves every view under its invariant.

The steps are the paper's examples of the state bug (1.1 to 1.3), in which pre-update equations give a wrong view when
they are evaluated after the update: several tables changed at once, and EXCEPT with a row that moves between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import SparkSession

import monus
from monus.errors import NotIncremental
from tests.spark.crashes import rows_of

POLICIES = {
    "im": "IMMEDIATE",
    "bl": "ON DEMAND USING LOG",
    "dt": "ON DEMAND USING DIFFERENTIAL",
    "c": "ON DEMAND USING COMBINED",
    "oq": "ON QUERY",
    "oqp": "ON QUERY PARTIAL",
    "ev": "EVERY 1 DAY PARTIAL PROPAGATE EVERY 1 HOUR",
}
INVARIANTS = {
    "im": "INV_IM", "bl": "INV_BL", "dt": "INV_DT", "c": "INV_C", "oq": "INV_BL", "oqp": "INV_C", "ev": "INV_C",
}  # fmt: skip
QUERIES = {
    "joined": "SELECT r.a FROM r, s WHERE r.b = s.b",
    "less": "SELECT a FROM r EXCEPT ALL SELECT b FROM s",
    "counted": "SELECT c.score, count(*) AS n, sum(s.quantity) AS q FROM customer c JOIN sales s USING (custId) "
    "GROUP BY c.score",
}
SCENARIOS = {
    "joined": ("im", "bl", "dt", "c"),
    "less": ("im", "bl", "dt", "c", "oq", "oqp", "ev"),
    "counted": ("im", "dt", "c", "oq", "oqp"),
}
VIEWS = {query: [f"{query}_{scenario}" for scenario in found] for query, found in SCENARIOS.items()}


@pytest.fixture(scope="module")
def wh(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[monus.Warehouse]:
    wh = monus.connect(tmp_path_factory.mktemp("scenarios") / "wh", spark=spark)
    wh.sql("CREATE TABLE customer (custId INT, name STRING, score STRING)")
    wh.sql("CREATE TABLE sales (custId INT, itemNo INT, quantity INT)")
    wh.sql("CREATE TABLE r (a STRING, b STRING)")
    wh.sql("CREATE TABLE s (b STRING, c STRING)")
    wh.sql("INSERT INTO customer VALUES (1, 'Ann', 'High'), (2, 'Bob', 'Low')")
    wh.sql("INSERT INTO sales VALUES (1, 10, 2), (1, 10, 2), (2, 11, 3)")
    wh.sql("INSERT INTO r VALUES ('a1', 'b1'), ('c', 'x')")
    wh.sql("INSERT INTO s VALUES ('b1', 'c1'), ('b1', 'c2'), ('b2', 'c1'), ('c', 'd')")
    for query, names in VIEWS.items():
        for name in names:
            wh.create_view(name, QUERIES[query], refresh=POLICIES[name.rpartition("_")[2]])
    yield wh
    wh.close()


def check(wh: monus.Warehouse, *queries: str) -> None:
    """The invariant of every view of these queries."""
    for name in [name for query in queries for name in VIEWS[query]]:
        found = wh.view(name).verify()
        assert found.invariant == INVARIANTS[name.rpartition("_")[2]]
        wrong = [each.name for each in found.checks if not each.ok]
        assert found.ok, (name, wrong, found.missing.collect(), found.extra.collect())


def only_combined(wh: monus.Warehouse) -> None:
    for query in QUERIES:
        found = wh.view(f"{query}_c").verify()
        assert (found.invariant, found.ok) == ("INV_C", True), query


def now(wh: monus.Warehouse, query: str) -> list[tuple[object, ...]]:
    return rows_of(wh.sql(QUERIES[query]))


def test_the_state_bug_of_a_join(wh: monus.Warehouse) -> None:
    """Example 1.2: [a1, b2] into R and [b2, c2] into S in one transaction add two rows to U, not four."""
    before = {scenario: rows_of(wh.table(f"joined_{scenario}")) for scenario in ("bl", "dt", "c")}
    with wh.transaction() as tx:
        tx.sql("INSERT INTO r VALUES ('a1', 'b2')")
        tx.sql("INSERT INTO s VALUES ('b2', 'c2')")
    expected = [("a1",)] * 4
    assert now(wh, "joined") == expected
    assert rows_of(wh.table("joined_im")) == expected
    for scenario, rows in before.items():
        assert rows_of(wh.table(f"joined_{scenario}")) == rows  # deferred: as it was last refreshed
        assert rows_of(wh.table(f"joined_{scenario}", fresh=True)) == expected
    check(wh, "joined", "less")


def test_the_state_bug_of_a_difference(wh: monus.Warehouse) -> None:
    """Example 1.3: a row that leaves R and enters S, where U = R EXCEPT ALL S."""
    with wh.transaction() as tx:
        tx.sql("DELETE FROM r WHERE a = 'a1' AND b = 'b1'")
        tx.sql("INSERT INTO s VALUES ('a1', 'moved')")
    expected: list[tuple[object, ...]] = []
    assert now(wh, "less") == expected
    assert rows_of(wh.table("less_im")) == expected
    assert rows_of(wh.table("less_dt", fresh=True)) == expected
    assert rows_of(wh.table("less_oq")) == expected
    for name in ("less_oqp", "less_ev"):
        assert rows_of(wh.table(name)) != expected
        wh.view(name).propagate()
    assert rows_of(wh.table("less_oqp")) == expected
    assert rows_of(wh.table("less_ev")) != expected
    check(wh, "less")
    wh.view("less_ev").partial_refresh()
    assert rows_of(wh.table("less_ev")) == expected
    check(wh, "less")


def test_the_retail_example(wh: monus.Warehouse) -> None:
    """Example 1.1 with changes of both tables, some of which cancel out."""
    with wh.transaction() as tx:
        tx.sql("UPDATE customer SET score = 'High' WHERE name = 'Bob'")
        tx.sql("INSERT INTO sales VALUES (2, 12, 1), (1, 13, 0)")
        tx.sql("DELETE FROM sales WHERE itemNo = 12")
        tx.sql("MERGE INTO sales t USING (SELECT 2 AS custId, 11 AS itemNo) u ON t.itemNo = u.itemNo "
               "WHEN MATCHED THEN UPDATE SET quantity = quantity + 1")  # fmt: skip
    assert rows_of(wh.table("counted_im")) == now(wh, "counted")
    assert rows_of(wh.table("counted_c", fresh=True)) == now(wh, "counted")
    check(wh, "counted")


def test_propagate_and_partial_refresh(wh: monus.Warehouse) -> None:
    """{INV_C} propagate {Q ≡ (MV ∸ ∇MV) ⊎ ΔMV}, {INV_C} partial_refresh {PAST(L, Q) ≡ MV}."""
    for query in QUERIES:
        wh.view(f"{query}_c").propagate()
    propagated = {query: now(wh, query) for query in QUERIES}
    only_combined(wh)
    wh.sql("INSERT INTO sales VALUES (1, 14, 4)")
    wh.sql("INSERT INTO r VALUES ('n', 'b1')")
    only_combined(wh)
    for query in QUERIES:
        wh.view(f"{query}_c").partial_refresh()
        assert rows_of(wh.table(f"{query}_c")) == propagated[query]
    only_combined(wh)
    for query in QUERIES:
        wh.view(f"{query}_c").refresh()
        assert rows_of(wh.table(f"{query}_c")) == now(wh, query)
    only_combined(wh)


def test_refresh_of_a_differential_view_only_applies(wh: monus.Warehouse) -> None:
    wh.sql("INSERT INTO sales VALUES (2, 15, 5)")
    done = wh.view("counted_dt").refresh()
    assert isinstance(done, monus.Refresh)
    assert (done.code, done.rows_read) == ("FOLDED", {})
    assert rows_of(wh.table("counted_dt")) == now(wh, "counted")
    check(wh, "counted")


def test_an_on_query_view_is_maintained_when_it_is_read(wh: monus.Warehouse) -> None:
    wh.sql("INSERT INTO sales VALUES (1, 16, 6)")
    assert rows_of(wh.sql("SELECT * FROM counted_oq")) == now(wh, "counted")
    assert rows_of(wh.table("counted_oqp")) != now(wh, "counted")
    wh.view("counted_oqp").propagate()
    assert rows_of(wh.table("counted_oqp")) == now(wh, "counted")
    check(wh, "counted")


def test_what_others_write_is_a_transaction_of_its_own(wh: monus.Warehouse) -> None:
    """Found when somebody looks: a reader of an immediate view sees it, and so does the next transaction."""
    path = wh._catalog.table("sales").location
    wh.spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 17, 7)")
    check(wh, "counted")
    assert rows_of(wh.sql("SELECT * FROM counted_im")) == now(wh, "counted")
    wh.spark.sql(f"DELETE FROM delta.`{path}` WHERE itemNo = 16")
    wh.sql("INSERT INTO sales VALUES (1, 18, 8)")
    check(wh, "counted")
    assert rows_of(wh.table("counted_im")) == now(wh, "counted")
    assert rows_of(wh.table("counted_dt", fresh=True)) == now(wh, "counted")


def test_what_others_write_is_counted_by_commits(wh: monus.Warehouse) -> None:
    view, path = wh.view("joined_bl"), wh._catalog.table("r").location
    view.refresh()
    assert view.status().behind.transactions == 0
    for k in (1, 2):
        wh.spark.sql(f"INSERT INTO delta.`{path}` VALUES ('o{k}', 'b1')")
        assert view.status().behind.transactions == k
    wh.sql("INSERT INTO s VALUES ('b1', 'c3')")
    assert view.status().behind.transactions == 3
    view.refresh()
    assert view.status().fresh
    assert rows_of(wh.table("joined_bl")) == now(wh, "joined")


def test_a_pending_change_that_nets_to_nothing(wh: monus.Warehouse) -> None:
    """What came was propagated, and left again before it was applied: the table is not touched."""
    view = wh.view("joined_c")
    view.refresh()
    version = wh._catalog.view("joined_c").version
    wh.sql("INSERT INTO r VALUES ('gone', 'b1')")
    view.propagate()
    wh.sql("DELETE FROM r WHERE a = 'gone'")
    done = view.refresh()
    assert isinstance(done, monus.Refresh)
    assert (done.code, done.rows_inserted, done.rows_deleted, done.commits) == ("NO_EFFECT", 0, 0, 0)
    assert (wh._catalog.view("joined_c").version, view.status().pending) == (version, False)
    check(wh, "joined")


def test_two_refreshes_of_one_view_at_once(wh: monus.Warehouse) -> None:
    """One of them does it, the other finds it done."""
    wh.sql("INSERT INTO r VALUES ('two', 'b1')")
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda _: wh.view("joined_bl").refresh(), range(2)))
    assert sorted(each.code == "NO_CHANGE" for each in done if isinstance(each, monus.Refresh)) == [False, True]
    assert rows_of(wh.table("joined_bl")) == now(wh, "joined")
    check(wh, "joined")


def test_a_refresh_brings_every_view_up_to_now(wh: monus.Warehouse) -> None:
    with wh.transaction() as tx:
        tx.sql("INSERT INTO r VALUES ('all', 'b1'), ('all', 'b9')")
        tx.sql("DELETE FROM s WHERE b = 'c'")
        tx.sql("INSERT INTO sales VALUES (1, 30, 1)")
    for query, names in VIEWS.items():
        for name in names:
            done = wh.view(name).refresh()
            assert isinstance(done, monus.Refresh) and done.incremental
            assert rows_of(wh.table(name)) == now(wh, query), name
            assert wh.view(name).status().fresh
    check(wh, *QUERIES)


def test_a_policy_is_changed_without_a_rebuild(wh: monus.Warehouse) -> None:
    name = "counted_alter"
    wh.create_view(name, QUERIES["counted"])
    for policy, invariant in [
        ("ON DEMAND USING COMBINED", "INV_C"),
        ("ON DEMAND USING DIFFERENTIAL", "INV_DT"),
        ("IMMEDIATE", "INV_IM"),
        ("EVERY 1 HOUR PARTIAL PROPAGATE EVERY 10 MINUTES", "INV_C"),
        ("ON QUERY", "INV_BL"),
        ("ON DEMAND USING LOG", "INV_BL"),
    ]:
        wh.sql("INSERT INTO sales VALUES (1, 19, 1)")
        wh.sql(f"ALTER MATERIALIZED VIEW {name} SET REFRESH {policy}")
        assert wh.view(name).policy == policy
        wh.sql("INSERT INTO sales VALUES (2, 20, 1)")
        found = wh.view(name).verify()
        assert (found.invariant, found.ok) == (invariant, True), policy
    assert not [done for done in wh.view(name).history() if done.strategy == "full"][:-1]
    wh.drop_view(name)


def test_what_cannot_be_derived_cannot_be_kept_as_a_difference(wh: monus.Warehouse) -> None:
    with pytest.raises(NotIncremental):
        wh.create_view("x", "SELECT * FROM sales LIMIT 1", refresh="ON DEMAND USING DIFFERENTIAL")
    assert "x" not in wh.views()


def test_views_over_views(wh: monus.Warehouse) -> None:
    """The log of a view is its batches; what is kept up to date follows what it reads."""
    wh.create_view("over_im", "SELECT n, count(*) AS c FROM counted_im GROUP BY n", refresh="IMMEDIATE")
    wh.create_view("over_dt", "SELECT n FROM counted_im", refresh="ON DEMAND USING DIFFERENTIAL")
    wh.create_view("over_bl", "SELECT a AS m FROM less_bl", refresh="IMMEDIATE")
    with wh.transaction() as tx:
        tx.sql("INSERT INTO sales VALUES (1, 21, 1), (2, 21, 1)")
        tx.sql("UPDATE customer SET score = 'Low' WHERE custId = 2")
        tx.sql("INSERT INTO r VALUES ('m', 'b1')")
    wh.view("less_bl").refresh()
    for name, query in {
        "over_im": "SELECT n, count(*) AS c FROM counted_im GROUP BY n",
        "over_bl": "SELECT a AS m FROM less_bl",
    }.items():
        assert rows_of(wh.table(name)) == rows_of(wh.sql(query))
        assert wh.view(name).verify().ok
    assert wh.view("over_dt").verify().ok
    assert rows_of(wh.table("over_dt", fresh=True)) == rows_of(wh.sql("SELECT n FROM counted_im"))
    for name in ("over_im", "over_dt", "over_bl"):
        wh.drop_view(name)
