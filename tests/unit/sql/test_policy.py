"""Policies and modes are read in any spelling and printed in one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monus.errors import StatementInvalid
from monus.sql.mode import Mode, parse_mode
from monus.sql.policy import SECONDS, Every, Immediate, Interval, Lazy, OnDemand, OnQuery, Policy, parse_policy


@pytest.mark.parametrize(
    ("text", "policy", "printed"),
    [
        ("immediate", Immediate(), "IMMEDIATE"),
        ("Lazy", Lazy(), "LAZY"),
        ("on query", OnQuery(), "ON QUERY"),
        ("on query partial;", OnQuery(partial=True), "ON QUERY PARTIAL"),
        ("on\n demand", OnDemand("LOG"), "ON DEMAND USING LOG"),
        ("ON DEMAND USING log", OnDemand("LOG"), "ON DEMAND USING LOG"),
        ("on demand using differential", OnDemand("DIFFERENTIAL"), "ON DEMAND USING DIFFERENTIAL"),
        ("on demand /* both */ using combined", OnDemand("COMBINED"), "ON DEMAND USING COMBINED"),
        ("every 1 minutes", Every(Interval(1, "MINUTE")), "EVERY 1 MINUTE"),
        ("every 90 second", Every(Interval(90, "SECOND")), "EVERY 90 SECONDS"),
        ("every 2 hours partial", Every(Interval(2, "HOUR"), partial=True), "EVERY 2 HOURS PARTIAL"),
        (
            "every 1 day propagate every 5 minutes",
            Every(Interval(1, "DAY"), propagate_every=Interval(5, "MINUTE")),
            "EVERY 1 DAY PROPAGATE EVERY 5 MINUTES",
        ),
        (
            "every 3 weeks partial propagate when idle",
            Every(Interval(3, "WEEK"), partial=True, propagate_when_idle=True),
            "EVERY 3 WEEKS PARTIAL PROPAGATE WHEN IDLE",
        ),
    ],
)
def test_policy(text: str, policy: Policy, printed: str) -> None:
    assert parse_policy(text) == policy
    assert str(policy) == printed


intervals = st.builds(Interval, st.integers(1, 999_999_999), st.sampled_from(list(SECONDS)))
policies: st.SearchStrategy[Policy] = st.one_of(
    st.just(Immediate()),
    st.just(Lazy()),
    st.builds(OnQuery, st.booleans()),
    st.builds(OnDemand, st.sampled_from(["LOG", "DIFFERENTIAL", "COMBINED"])),
    st.builds(Every, intervals, st.booleans(), propagate_every=st.none() | intervals),
    st.builds(Every, intervals, st.booleans(), propagate_when_idle=st.booleans()),
)


@given(policies)
def test_what_is_printed_is_read_again(policy: Policy) -> None:
    assert parse_policy(str(policy)) == policy
    assert parse_policy(str(policy).lower()) == policy


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "IMMEDIATE, LAZY, ON QUERY, ON DEMAND or EVERY"),
        ("refresh lazy", "IMMEDIATE, LAZY, ON QUERY, ON DEMAND or EVERY"),
        ("on", "QUERY or DEMAND"),
        ("on demand using", "LOG or DIFFERENTIAL or COMBINED"),
        ("on query using log", "the end of the statement"),
        ("every", "a whole number above zero"),
        ("every 0 minutes", "a whole number above zero"),
        ("every -1 minutes", "a whole number above zero"),
        ("every 1L minutes", "a whole number above zero"),
        ("every " + "9" * 5000 + " minutes", "a whole number above zero"),
        ("every 1.5 hours", "SECONDS, MINUTES, HOURS, DAYS or WEEKS"),
        ("every 1 fortnight", "SECONDS, MINUTES, HOURS, DAYS or WEEKS"),
        ("every 1 hour propagate", "EVERY or WHEN"),
        ("every 1 hour propagate when busy", "IDLE"),
        ("lazy lazy", "the end of the statement"),
    ],
)
def test_policy_invalid(text: str, expected: str) -> None:
    with pytest.raises(StatementInvalid) as caught:
        parse_policy(text)
    assert caught.value.fields["expected"] == expected


def test_propagated_one_way_only() -> None:
    with pytest.raises(StatementInvalid):
        Every(Interval(1, "DAY"), propagate_every=Interval(1, "HOUR"), propagate_when_idle=True)


def test_interval_in_seconds() -> None:
    assert [Interval(2, unit).seconds for unit in SECONDS] == [2, 120, 7200, 172_800, 1_209_600]


@pytest.mark.parametrize("text", ["strict", "STRICT", " Strict ;"])
def test_mode(text: str) -> None:
    assert parse_mode(text) is Mode.STRICT
    assert str(Mode.STRICT) == "STRICT"


@pytest.mark.parametrize("text", ["", "fast", "auto full"])
def test_mode_invalid(text: str) -> None:
    with pytest.raises(StatementInvalid):
        parse_mode(text)
