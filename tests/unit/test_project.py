"""The project's frame: what the README promises, what the table of rooms says and what is pinned fit together."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from scripts.rooms_contract import Table

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
README = (ROOT / "README.md").read_text(encoding="utf-8")
LOCK = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8")


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared() -> list[str]:
    extras = PROJECT["project"]["optional-dependencies"]
    requirements = [
        *PROJECT["project"]["dependencies"],
        *extras["dev"],
        *extras["bench"],
        *PROJECT["build-system"]["requires"],
    ]
    return [normal(re.split(r"[<>=!~\[ ]", requirement)[0]) for requirement in requirements]


def pins() -> dict[str, str]:
    lines = [line for line in LOCK.splitlines() if line and not line.startswith("#")]
    return {normal(name): version for name, version in (line.split("==") for line in lines)}


@pytest.mark.parametrize("package", declared())
def test_every_dependency_is_pinned_and_has_its_reason(package: str) -> None:
    assert package in pins()
    assert f"`{package}`" in (ROOT / "docs/dependencies.md").read_text(encoding="utf-8").lower()


def test_the_lock_keeps_to_the_exact_versions_of_the_project() -> None:
    exact = dict(line.split("==") for line in PROJECT["project"]["dependencies"] if "==" in line)
    assert {normal(name): pins()[normal(name)] for name in exact} == {normal(name): v for name, v in exact.items()}


def test_the_lock_names_no_place_to_fetch_from() -> None:
    assert not re.search(r"://|--index|--find-links|@", LOCK)


def test_every_make_command_in_the_documents_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    documents = [README, *(path.read_text(encoding="utf-8") for path in (ROOT / "CONTRIBUTING.md", ROOT / ".ci/run"))]
    named = {word for text in documents for word in re.findall(r"(?:`|^|\s{4})make ([a-z]+)", text, re.MULTILINE)}
    assert {"demo", "test", "lint"} <= named <= targets


def test_every_make_target_is_explained() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.findall(r"^[a-z]+:(?!.*## ).*$", text, re.MULTILINE) == []


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "docs/design/README.md"])
def test_links_lead_somewhere(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    assert [link for link in links if link and not ((ROOT / document).parent / link).exists()] == []


def test_the_version_is_in_the_changelog() -> None:
    assert f"## {PROJECT['project']['version']}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


class TestTableOfRooms:
    table = Table.parse("monus", PROJECT["tool"]["importlinter"]["contracts"][0]["rooms"])

    def test_every_folder_has_a_line(self) -> None:
        folders = {path.parent.name for path in (ROOT / "src/monus").glob("*/__init__.py")}
        assert folders <= set(self.table.allowed)

    @pytest.mark.parametrize(
        ("importer", "imported"),
        [
            ("monus.algebra.relations", "monus.errors"),
            ("monus.algebra.relations", "monus.algebra.scalars"),
            ("monus.algebra.relations", "dataclasses"),
            ("monus.compiler.compile", "monus.frontend.expressions"),
            ("monus.store.session", "pyspark"),
            ("monus.maintenance.executor", "monus.catalog.views"),
            ("monus.warehouse", "monus.sql.parser"),
            ("monus", "monus.warehouse"),
        ],
    )
    def test_allows(self, importer: str, imported: str) -> None:
        assert self.table.allows(importer, imported)

    @pytest.mark.parametrize(
        ("importer", "imported"),
        [
            ("monus.errors", "monus.algebra"),
            ("monus.algebra.relations", "monus.delta.signed"),
            ("monus.algebra.relations", "pyspark"),
            ("monus.rewrite.order_joins", "monus.analysis"),
            ("monus.compiler.compile", "monus.frontend.plan"),
            ("monus.store.session", "monus.delta"),
            ("monus.store.session", "sqlalchemy"),
            ("monus.catalog.views", "pyspark"),
            ("monus.maintenance.executor", "monus.warehouse"),
            ("monus.cli.main", "monus.maintenance"),
        ],
    )
    def test_forbids(self, importer: str, imported: str) -> None:
        assert not self.table.allows(importer, imported)
