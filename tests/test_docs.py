"""Everything that the READMEs show is run here."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from jumar.tools.cli import cli
from jumar.tools.harness.command import judge
from jumar.tools.harness.shapes import EXPECTED, PHASES, SHAPES

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
FOLDERS = (
    "reducers",
    "engine",
    "engine/log",
    "adapters",
    "tools",
    "tools/harness",
    "tools/index",
    "tests",
)


def block(language: str) -> str:
    """The one fenced block of this language in the README."""
    found = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    assert len(found) == 1, language
    return str(found[0])


def test_the_trainer_of_the_readme_runs_and_goes_on_when_it_is_started_again(
    tmp_path: Path,
) -> None:
    """The second start finds the run finished and has nothing left to train."""
    script = tmp_path / "train.py"
    script.write_text(block("python"))
    for _ in range(2):
        subprocess.run([sys.executable, str(script)], cwd=tmp_path, check=True, timeout=100)
    kept = sorted(p.name for p in (tmp_path / "runs/mine/live").iterdir())

    assert {"40", "50", "60", "latest"} <= set(kept)


def test_the_scenario_of_the_readme_holds() -> None:
    verdict = judge(block("scenario"))

    assert (verdict.exit, verdict.differs) == (0, {})


def plain(text: str) -> list[str]:
    """Lines without what differs between machines: numbers, digests, order of ranks."""
    text = re.sub(r"(did not come to the exchange).*", r"\1", text)
    text = re.sub(r"\b[0-9a-f]{32}\b|\b[0-9a-f]{6}…", "#", text)
    text = re.sub(r"\d+(\.\d+)?(e-\d+)?", "#", text)
    return sorted(line for raw in text.splitlines() if (line := " ".join(raw.split())))


def test_the_demo_prints_what_the_readme_shows(tmp_path: Path) -> None:
    run = tmp_path / "demo"
    done = subprocess.run(
        [sys.executable, "-m", "jumar.tools.cli", "demo", str(run)],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    shown = done.stdout.replace(str(run), "runs/demo").partition("\n")[2]

    assert done.returncode == 0, done.stdout + done.stderr
    assert plain(block("demo")) == plain(shown)


def test_the_two_commands_and_the_others_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()

    for target in ("demo", "test", "check", "bench", "soak"):
        assert f"make {target}" in README
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
    assert "make test" in (ROOT / ".ci/run").read_text()


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_names_what_lives_in_it_and_nothing_else(folder: str) -> None:
    text = (ROOT / folder / "README.md").read_text()
    named = set(re.findall(r"`([\w/]+\.py|[\w/]+/)`", text))

    for name in named:
        assert (ROOT / folder / name).exists(), name
    if folder not in ("tests", "adapters"):
        for path in (ROOT / folder).glob("*.py"):
            assert path.name in text or path.name.startswith("__")


@pytest.mark.parametrize("folder", [*FOLDERS, "."])
def test_links_lead_somewhere(folder: str) -> None:
    text = (ROOT / folder / "README.md").read_text()

    for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", text):
        assert (ROOT / folder / link).exists(), link


def test_every_command_is_in_the_docs() -> None:
    text = README + (ROOT / "tools/README.md").read_text()

    for name in cli.commands:
        assert re.search(rf"\b{name}\b", text), name


def test_the_format_page_names_every_word_of_the_format() -> None:
    text = (ROOT / "tools/harness/README.md").read_text()

    for word in (*PHASES, *SHAPES, *EXPECTED):
        assert re.search(rf"\b{word}\b", text), word
    assert "disk" in text


def test_versions_that_the_docs_name_are_pinned() -> None:
    pinned = (ROOT / "constraints.txt").read_text()
    project = (ROOT / "pyproject.toml").read_text()

    assert "torch==2.13.0" in pinned and "torch==2.13.0" in README
    for name in re.findall(r'"([a-z-]+)(?:>=|\[|")', project.split("[project.scripts]")[0]):
        known = name in ("setuptools", "jumar") or f"\n{name}==" in f"\n{pinned}"
        assert known, name
