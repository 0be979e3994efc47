"""A resolved MERGE as the rows that leave and the rows that come, by the rules of SQL and Delta.

Of the clauses for a pair of rows, or for a row without a partner, the first whose condition holds acts:
    deleted  = target ⋉θ∧m source ⊎ σ_b(target ▷θ source)   with m, b: any MATCHED, any BY SOURCE clause holds
    inserted = π_action(σ_acts(target ⟗θ source))           an outer join on the sides whose lone rows act
given that no target row has two partners, which is checked first; otherwise a row would come twice. A lone
unconditional DELETE may have several partners per row, and brings none; so may a MERGE that only inserts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from monus.errors import NotSupported, StatementInvalid
from monus.frontend.dml_target import Target
from monus.frontend.jvm import analyzed, class_name, frame_of, items, option
from monus.frontend.plan_nodes import PlanNodes
from monus.frontend.settled import settled

_ROW = "__row"


@dataclass(frozen=True, slots=True)
class Clause:
    """`values` are what the table's columns become; None for DELETE."""

    on_target: bool
    on_source: bool
    condition: Any | None
    values: tuple[Any, ...] | None


@dataclass(frozen=True, slots=True)
class Merge:
    target: Target
    source: Any
    condition: Any
    clauses: tuple[Clause, ...]

    def acting(self, on_target: bool, on_source: bool) -> list[Clause]:
        return [each for each in self.clauses if (each.on_target, each.on_source) == (on_target, on_source)]

    def only_inserts(self) -> bool:
        return not any(clause.on_target for clause in self.clauses)

    def only_deletes_matched(self) -> bool:
        """Then it does not matter how many partners a row has."""
        matched = self.acting(True, True)
        return len(matched) == 1 and matched[0].condition is None and matched[0].values is None


def read_merge(spark: SparkSession, command: Any, target: Target) -> Merge:
    names = [attribute.name() for attribute in target.output]
    schema = option(command.migratedSchema())
    if schema is not None and [field.name() for field in schema.fields()] != names:
        raise NotSupported(
            "The MERGE would add columns to the table.",
            "Add them with ALTER TABLE first, outside of the transaction.",
        )
    kinds = (
        (True, True, command.matchedClauses()),
        (False, True, command.notMatchedClauses()),
        (True, False, command.notMatchedBySourceClauses()),
    )
    clauses = tuple(_clause(target, t, s, each) for t, s, found in kinds for each in items(found))
    source = analyzed(settled(frame_of(spark, command.source())))
    return Merge(target, source, command.condition(), clauses)


def check_partners(spark: SparkSession, nodes: PlanNodes, merge: Merge) -> None:
    """StatementInvalid if a target row has several partners, whichever clauses would act on them: Delta's rule."""
    if merge.only_inserts() or merge.only_deletes_matched():
        return
    number = nodes.alias(nodes.expression("MonotonicallyIncreasingID"), _ROW)
    target = nodes.project([*merge.target.output, number], merge.target.plan)
    pairs = nodes.join(target, merge.source, "inner", merge.condition)
    rows = frame_of(spark, nodes.project([number.toAttribute()], pairs))
    if not rows.groupBy(_ROW).count().where(F.col("count") > 1).isEmpty():
        raise StatementInvalid(
            "Several rows of the source match one row of the target, so it is not defined what MERGE makes of it "
            "(DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE).",
            "Let the source have one row for each row of the target, by GROUP BY or a narrower ON.",
            table=merge.target.path,
        )


def deleted_rows(nodes: PlanNodes, merge: Merge) -> Any | None:
    """The plan of the rows that an UPDATE or DELETE clause acts on."""
    target, parts = merge.target.plan, []
    if matched := merge.acting(True, True):
        condition = nodes.all_of([merge.condition, *_any_holds(nodes, matched)])
        parts.append(nodes.join(target, merge.source, "leftsemi", condition))
    if lone := merge.acting(True, False):
        rest = nodes.join(target, merge.source, "leftanti", merge.condition)
        for condition in _any_holds(nodes, lone):
            rest = nodes.filter(condition, rest)
        parts.append(rest)
    columns = merge.target.attributes()
    plans = [nodes.project([nodes.alias(each, each.name()) for each in columns], part) for part in parts]
    return nodes.union(plans) if plans else None


def inserted_rows(nodes: PlanNodes, merge: Merge) -> Any | None:
    """The plan of what UPDATE and INSERT clauses make."""
    if all(clause.values is None for clause in merge.clauses):
        return None
    numbered, action = _numbered(nodes, merge)
    making = [
        (nodes.expression("EqualTo", action, nodes.literal(i)), clause.values)
        for i, clause in enumerate(merge.clauses)
        if clause.values is not None
    ]
    made = nodes.filter(nodes.any_of([acts for acts, _ in making]), numbered)
    columns = [
        nodes.alias(nodes.first_of([(acts, values[i]) for acts, values in making]), name)
        for i, name in enumerate(merge.target.shape.schema.names)
    ]
    return nodes.project(columns, made)


def _numbered(nodes: PlanNodes, merge: Merge) -> tuple[Any, Any]:
    """Pairs and lone rows with the number of the clause that acts on each, and the attribute that has it."""
    target = nodes.project([*merge.target.output, nodes.alias(nodes.literal(True), "__target")], merge.target.plan)
    source = nodes.project([*items(merge.source.output()), nodes.alias(nodes.literal(True), "__source")], merge.source)
    joined = nodes.join(target, source, _join_kind(merge), merge.condition)
    columns = items(joined.output())
    in_target = nodes.expression("IsNotNull", columns[len(merge.target.output)])
    in_source = nodes.expression("IsNotNull", columns[-1])

    def acts(clause: Clause) -> Any:
        sides = ((in_target, clause.on_target), (in_source, clause.on_source))
        there = [side if wanted else nodes.expression("Not", side) for side, wanted in sides]
        return nodes.all_of([*there, *([] if clause.condition is None else [clause.condition])])

    numbers = [(acts(clause), nodes.literal(i)) for i, clause in enumerate(merge.clauses)]
    action = nodes.alias(nodes.first_of(numbers), "__action")
    return nodes.project([*columns, action], joined), action.toAttribute()


def _join_kind(merge: Merge) -> str:
    """The sides whose lone rows make rows are kept."""
    keeps_target = any(clause.values is not None for clause in merge.acting(True, False))
    keeps_source = bool(merge.acting(False, True))
    return {
        (False, False): "inner",
        (True, False): "leftouter",
        (False, True): "rightouter",
        (True, True): "fullouter",
    }[keeps_target, keeps_source]


def _any_holds(nodes: PlanNodes, clauses: Sequence[Clause]) -> list[Any]:
    """That one of the clauses acts, as a condition or none: a clause without a condition always does."""
    conditions = [clause.condition for clause in clauses if clause.condition is not None]
    return [nodes.any_of(conditions)] if len(conditions) == len(clauses) else []


def _clause(target: Target, on_target: bool, on_source: bool, clause: Any) -> Clause:
    """Delta has put the values of UPDATE and INSERT in the order of the target and cast them to its types."""
    condition = option(clause.condition())
    if "Delete" in class_name(clause):
        return Clause(on_target, on_source, condition, None)
    values = target.in_order([action.expr() for action in items(clause.resolvedActions())])
    return Clause(on_target, on_source, condition, tuple(values))
