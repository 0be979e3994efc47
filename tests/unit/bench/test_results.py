"""Medians, ratios, verdicts and targets."""

from __future__ import annotations

import json

import pytest

from tests.unit.bench.samples import outcome, report


def test_seconds_are_the_median_of_the_rounds() -> None:
    assert outcome(refresh=(9.0, 0.4, 0.6)).seconds("refresh") == 0.6


@pytest.mark.parametrize(("full", "plain", "by"), [(2.0, 1.0, "plain"), (1.0, 2.0, "full")])
def test_full_is_the_faster_of_the_two_ways(full: float, plain: float, by: str) -> None:
    found = outcome(full=(full,), plain=(plain,), refresh=(0.5,))
    assert (found.full_seconds, found.full_by, found.ratio("refresh")) == (1.0, by, 0.5)


@pytest.mark.parametrize(
    ("propagate", "refresh", "verdict", "is_loss"),
    [
        (0.2, 0.5, "incremental is 2.0 times faster", False),
        (0.001, 0.004, "incremental is 250 times faster", False),
        (0.2, 1.3, "refresh LOSES, 1.3 times as long as full; propagate wins", True),
        (1.2, 0.9, "propagate LOSES, 1.2 times as long as full; refresh wins", True),
        (1.5, 2.0, "LOSES: 2.0 times as long as full", True),
        (1.0, 1.0, "LOSES: about 1.0 times as long as full", True),
    ],
)
def test_the_verdict_names_who_loses(propagate: float, refresh: float, verdict: str, is_loss: bool) -> None:
    found = outcome(propagate=(propagate,), refresh=(refresh,))
    assert (found.verdict, found.is_loss) == (verdict, is_loss)


def test_jobs_are_the_most_of_any_round() -> None:
    mixed = outcome(jobs=3)
    samples = {**mixed.samples, "refresh": mixed.samples["refresh"] + outcome(jobs=7).samples["refresh"]}
    assert type(mixed)("v", "few", "3 rows", 1, 0.1, samples, 1, 0).jobs("refresh") == 7


@pytest.mark.parametrize(("propagate", "reached", "word"), [(0.25, True, "reached"), (0.26, False, "MISSED")])
def test_a_target_is_reached_at_its_limit(propagate: float, reached: bool, word: str) -> None:
    (judgement,) = report(outcome(propagate=(propagate,))).judgements
    assert (judgement.reached, judgement.word) == (reached, word)


def test_a_target_is_not_judged_at_another_scale() -> None:
    (judgement,) = report(outcome(), factor=0.1).judgements
    assert (judgement.reached, judgement.word) == (None, "not judged: set for scale factor 1")


def test_a_job_for_no_change_misses_the_target() -> None:
    kept, broken = (report(outcome("none", jobs=jobs)).judgements[0] for jobs in (0, 1))
    assert kept.reached
    assert broken.reached is False


def test_json_keeps_every_sample() -> None:
    found = json.loads(json.dumps(report(outcome(refresh=(0.5, 0.7, 0.6)), outcome("none", wrong=1)).to_json()))
    assert [s["seconds"] for s in found["outcomes"][0]["samples"]["refresh"]] == [0.5, 0.7, 0.6]
    assert found["outcomes"][0]["ratios"] == {"propagate": 0.2, "partial_refresh": 0.6, "refresh": 0.6}
    assert found["outcomes"][1]["wrong"] == 1
    assert found["environment"]["cores"] == "2"
