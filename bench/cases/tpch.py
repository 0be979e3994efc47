"""TPC-H: the view V1 of Zhou, Larson and Elmongui (2007), section 5.1, and a join without aggregation.

Changes of customers reach the views through two joins, changes of lineitem are the large table's own. The rows that
change are spread over the whole table, so that no file is spared.
"""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path

import monus
from bench.case import Case, Change, Say, Scale, Target, View

TABLES = ("nation", "customer", "orders", "lineitem")
CUSTOMERS_AT_1 = 150_000
SEGMENTS = "array('AUTOMOBILE', 'BUILDING', 'FURNITURE', 'HOUSEHOLD', 'MACHINERY')"
NEXT_SEGMENT = f"element_at({SEGMENTS}, CAST(array_position({SEGMENTS}, c_mktsegment) % 5 + 1 AS INT))"
LINEITEM_SHARES = {"lineitem_0.1pct": 0.001, "lineitem_5pct": 0.05}

V1 = View(
    "v1",
    "V1: customer ⋈ orders ⋈ lineitem ⋈ nation, grouped by nation and segment",
    """
    SELECT n_name, c_mktsegment, count(*) AS totalcnt,
           sum(l_extendedprice) AS totalprice, sum(l_quantity) AS totalquantity
    FROM   customer, orders, lineitem, nation
    WHERE  c_custkey = o_custkey AND o_orderkey = l_orderkey AND n_nationkey = c_nationkey
    GROUP BY n_name, c_mktsegment""",
)
RECENT = View(
    "recent_lines",
    "recent_lines: customer ⋈ orders ⋈ lineitem of the last half year, no aggregation",
    """
    SELECT c_custkey, c_name, c_mktsegment, o_orderkey, o_orderdate, l_linenumber, l_quantity, l_extendedprice
    FROM   customer JOIN orders ON c_custkey = o_custkey JOIN lineitem ON o_orderkey = l_orderkey
    WHERE  o_orderdate >= DATE '1998-02-01'""",
)


def nothing(factor: float, number: int) -> tuple[str, ...]:
    return ()


def customers(count: int) -> Change:
    """So many customers move to the next segment and nation; as many as there are, where there are fewer."""

    def statements(factor: float, number: int) -> tuple[str, ...]:
        there = max(1, round(CUSTOMERS_AT_1 * factor))
        step = max(1, there // count)
        # Customers whose key is a multiple of 3 have no orders: choosing others is the harder case for us.
        offset = (3 * number + 1) % step
        return (
            f"""UPDATE customer
                SET c_mktsegment = {NEXT_SEGMENT}, c_nationkey = (c_nationkey + 1) % 25
                WHERE c_custkey % {step} = {offset} AND c_custkey <= {step * count}""",
        )

    plural = "customer" if count == 1 else "customers"
    return Change(f"customers_{count}", f"{count:,} {plural} updated", statements)


def lineitem(name: str, share: float) -> Change:
    """A third of the share updated, a third deleted, a third inserted: the table keeps its size."""

    def statements(factor: float, number: int) -> tuple[str, ...]:
        # Each part looks at the rows with a hash of its own, or it would miss what the one before did.
        def chosen(part: int) -> str:
            return f"pmod(xxhash64(l_orderkey, l_linenumber, {3 * number + part}), 1000000) < {round(share / 3 * 1e6)}"

        return (
            f"UPDATE lineitem SET l_quantity = l_quantity + 1 WHERE {chosen(0)}",
            f"DELETE FROM lineitem WHERE {chosen(1)}",
            f"""INSERT INTO lineitem BY NAME
                SELECT * EXCEPT (l_linenumber), l_linenumber + 1000 AS l_linenumber
                FROM lineitem WHERE {chosen(2)}""",
        )

    return Change(name, f"{share * 100:g} % of lineitem changed", statements)


def prepare(scale: Scale, say: Say) -> None:
    if all(_file(scale, table).exists() for table in TABLES):
        return
    say(f"Generating TPC-H at scale factor {scale.factor:g} in {scale.data}")
    scale.data.mkdir(parents=True, exist_ok=True)
    command = [str(Path(sysconfig.get_path("scripts")) / "tpchgen-cli"), "parquet", "--quiet", "--overwrite"]
    command += ["--scale-factor", f"{scale.factor:g}", "--output-dir", str(scale.data), "--tables", ",".join(TABLES)]
    try:
        subprocess.run(command, check=True)
    except BaseException:
        # What was written halfway must not be taken for the data by the next run.
        for table in TABLES:
            _file(scale, table).unlink(missing_ok=True)
        raise


def load(wh: monus.Warehouse, scale: Scale, say: Say) -> None:
    for table in TABLES:
        say(f"Loading {table}")
        wh.sql(f"CREATE TABLE {table} AS SELECT * FROM parquet.`{_file(scale, table)}`")


def _file(scale: Scale, table: str) -> Path:
    return scale.data / f"{table}.parquet"


TPCH = Case(
    "tpch",
    "TPC-H: view V1 of Zhou et al. (2007) and a join without aggregation",
    views=(V1, RECENT),
    changes=(
        Change("none", "nothing", nothing),
        customers(1),
        customers(100),
        customers(10_000),
        *(lineitem(name, share) for name, share in LINEITEM_SHARES.items()),
    ),
    targets=(
        Target("none", "refresh_seconds", 0.1, factor=1),
        Target("none", "refresh_jobs", 0, factor=1),
        Target("customers_100", "propagate_ratio", 0.25, factor=1),
        Target("customers_100", "refresh_ratio", 0.4, factor=1),
    ),
    prepare=prepare,
    load=load,
)
