"""The files of a run: JSON for programs, Markdown and a picture for people."""

from __future__ import annotations

import json
from pathlib import Path

from bench import markdown, plot
from bench.results import Report


def stem(report: Report, is_trial: bool) -> str:
    """A trial has a name of its own: it must not take the place of results that count."""
    name = f"{report.case.name}-sf{report.factor:g}"
    return f"{name}-trial" if is_trial else name


def write(report: Report, folder: Path, is_trial: bool) -> Path:
    """Returns the Markdown file; the others are beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    base = folder / stem(report, is_trial)
    picture = Path(f"{base}.png")
    text = json.dumps(report.to_json(), indent=2, ensure_ascii=False)
    Path(f"{base}.json").write_text(text + "\n", encoding="utf-8")
    plot.draw(report, picture)
    page = Path(f"{base}.md")
    page.write_text(markdown.document(report, picture.name), encoding="utf-8")
    return page
