"""The import-linter contract for the rooms: a direct import must be allowed by the importing room's line.

Direct imports are enough: if every room keeps to its line, so do all chains of imports.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

ALL_ABOVE = "all above"
NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Table:
    """What each room may import: names of modules (`monus.algebra`) and of packages (`pyspark`)."""

    root: str
    allowed: dict[str, frozenset[str]]

    @classmethod
    def parse(cls, root: str, lines: list[str]) -> Table:
        allowed: dict[str, frozenset[str]] = {}
        seen: set[str] = {f"{root}.errors"}
        for line in lines:
            room, _, right = (part.strip() for part in line.partition(":"))
            if right == ALL_ABOVE:
                names = frozenset(seen)
            elif right == NOTHING:
                names = frozenset()
            else:
                words = (word.strip() for word in right.split(","))
                names = frozenset(root + word if word.startswith(".") else word for word in words)
            allowed[room] = names
            seen |= names | {f"{root}.{room}"}
        return cls(root, allowed)

    def room_of(self, module: str) -> str:
        return module.split(".")[1] if "." in module else "__init__"

    def allows(self, importer: str, imported: str) -> bool:
        if not self.is_ours(imported):
            package = imported.split(".")[0]
            return package in sys.stdlib_module_names or package in self.allowed[self.room_of(importer)]
        if self.room_of(imported) in (self.room_of(importer), "errors"):
            return True
        return any(imported == name or imported.startswith(name + ".") for name in self.allowed[self.room_of(importer)])

    def is_ours(self, module: str) -> bool:
        return module == self.root or module.startswith(self.root + ".")


class RoomsContract(Contract):
    type_name = "rooms"

    rooms = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        table = Table.parse(self.session_options["root_packages"][0], list(self.rooms))
        findings: list[str] = []
        for importer in sorted(filter(table.is_ours, graph.modules)):
            if table.room_of(importer) not in table.allowed:
                findings.append(f"{importer}: its room has no line in the table of rooms in pyproject.toml")
                continue
            for imported in sorted(graph.find_modules_directly_imported_by(importer)):
                if not table.allows(importer, imported):
                    lines = graph.get_import_details(importer=importer, imported=imported)
                    where = ", ".join(f"line {line['line_number']}" for line in lines)
                    findings.append(f"{importer} may not import {imported} ({where})")
        return ContractCheck(kept=not findings, metadata={"findings": findings})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for finding in check.metadata["findings"]:
            output.print_error(finding)
        output.new_line()
