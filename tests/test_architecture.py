"""
The house: which folder may import what, which packages are declared, how long files are.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("reducers", "engine", "adapters", "tools")
"""In the order of the arrows: each may import itself and those before it."""

PURE = {
    *("attrs", "bisect", "collections", "enum", "fractions", "functools", "hashlib"),
    *("itertools", "json", "math", "operator", "re", "struct", "typing", "__future__"),
}
"""What `reducers` may import beside itself."""

TORCH_ALLOWED = ("adapters/", "tools/demo/", "tools/bench/")
FORBIDDEN = {
    "engine": {"numpy", "click"},
    "adapters": {"sqlite3", "sqlite_utils", "click"},
    "tools": set(),
    "reducers": set(),
}


def sources() -> list[Path]:
    """Every Python file of the four folders."""
    return [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, dotted module) of every import, function-level ones included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            yield node.lineno, node.module or ""
            yield from (
                (node.lineno, f"{node.module}.{alias.name}") for alias in node.names
            )


def breaches(path: Path, where: str | None = None) -> Iterator[str]:
    """Every import that the house forbids, as a sentence; `where`: as if it stood there."""
    where = where or path.relative_to(ROOT).as_posix()
    folder = where.split("/")[0]
    above = FOLDERS[FOLDERS.index(folder) + 1 :]
    for line, module in imports(path):
        top, *rest = module.split(".")
        if top == "jumar" and rest and rest[0] in above:
            yield f"{where}:{line}: {folder} may not import {module}"
        if top == "torch" and not where.startswith(TORCH_ALLOWED):
            yield f"{where}:{line}: torch belongs in adapters, tools/demo and tools/bench"
        if top in FORBIDDEN[folder] or top in FOLDERS:
            yield f"{where}:{line}: {folder} may not import {module}"
        if folder == "reducers" and top != "jumar" and top not in PURE:
            yield f"{where}:{line}: {module} is not pure"


@pytest.mark.parametrize("path", sources(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_every_import_follows_the_arrows(path: Path) -> None:
    assert list(breaches(path)) == []


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("reducers/x.py", "import os"),
        ("reducers/x.py", "from jumar.engine.disk import Disk"),
        ("engine/x.py", "from jumar.adapters import torch"),
        ("engine/x.py", "import torch"),
        ("engine/x.py", "def f():\n    import torch.nn"),
        ("adapters/x.py", "from jumar.tools import cli"),
        ("adapters/x.py", "import sqlite3"),
        ("tools/x.py", "import engine.disk"),
        ("tools/views/x.py", "from torch import nn"),
    ],
)
def test_a_planted_breach_is_found(where: str, text: str, tmp_path: Path) -> None:
    """The checker itself can fail: each forbidden kind of import is named."""
    planted = tmp_path / "x.py"
    planted.write_text(text)

    assert list(breaches(planted, where))


def test_every_package_is_declared_and_typed() -> None:
    """A nested package that pyproject.toml forgets is absent from the wheel."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    on_disk = {
        "jumar." + path.parent.relative_to(ROOT).as_posix().replace("/", ".")
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("__init__.py")
        if "_facade" not in path.parts
    }

    assert {"jumar", *on_disk} == set(declared["packages"]) == set(declared["package-dir"])
    for folder in declared["package-dir"].values():
        assert (ROOT / folder / "py.typed").exists(), folder


@pytest.mark.parametrize("path", sources(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_no_file_is_long(path: Path) -> None:
    """Above 300 lines a file says why in its first lines."""
    lines = path.read_text().splitlines()

    assert len(lines) <= 300 or "Longer than 300 lines" in "\n".join(lines[:30]), len(lines)


def test_the_facade_is_torch_free_and_light() -> None:
    """`import jumar` loads neither torch nor a database, and has at most 25 names."""
    code = (
        "import sys, jumar; "
        "print([m for m in ('torch', 'numpy', 'sqlite3', 'click') if m in sys.modules]); "
        "print(len(jumar.__all__) <= 25 and all(hasattr(jumar, n) for n in jumar.__all__))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    )

    assert done.stdout.split("\n")[:2] == ["[]", "True"]
