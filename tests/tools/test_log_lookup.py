"""`jumar log` says the same through the index as from the whole story."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jumar.engine.clock import SystemClock
from jumar.engine.log.claims import this_process
from jumar.engine.log.record import Entry
from jumar.engine.log.writer import LogWriter
from jumar.engine.real_disk import RealDisk
from jumar.reducers import events as ev
from jumar.tools.cli import main
from jumar.tools.index.index import Index
from jumar.tools.views import events
from jumar.tools.views.events import Wish, looked_up, told
from jumar.tools.views.story import Story

pytestmark = pytest.mark.usefixtures("scratch")

Made = Callable[..., Path]
DO: list[Any] = [
    {"save": 100, "metrics": {"loss": 0.9}},
    {"save": 200, "metrics": {"loss": 0.5}},
    {"bad": {"step": 250, "ranks": [1], "component": "loss"}},
    {"save": 300},
    {"restart": {"from": 200}},
    {"save": 300},
    {"save": 400},
]
WISHES: list[list[str]] = [
    ["--type", "ckpt.committed"],
    ["--type", "ckpt.committed", "--type", "guard.verdict", "--limit", "3"],
    ["--step", "300"],
    ["--step", "300", "--type", "ckpt.accepted"],
    ["--since", "10"],
    ["--limit", "1"],
    ["live@200r0"],
    ["live@300r0", "--json"],
    ["live@200r0", "--limit", "2", "--full"],
    ["latest"],
    ["300"],
    ["250"],
    ["--type", "no.such", "--json"],
    ["--step", str(2**70)],
    ["--since", str(2**70)],
    ["--type", "\udcff"],
    ["live@999r0"],
    ["live@300r7"],
    ["nonsense"],
]
Said = tuple[Any, str, str]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """`said(run, ...)` -> (exit code, stdout, stderr) of `jumar log`."""

    def run(*arguments: object) -> Said:
        with pytest.raises(SystemExit) as stop:
            main(["log", *map(str, arguments)])
        return stop.value.code, *capsys.readouterr()

    return run


def unindexed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(events, "looked_up", lambda *_: None)


def append(run: Path, *entries: Entry) -> None:
    log = LogWriter.open(
        RealDisk(), f"{run}/.jumar", run_id="0" * 32, who=this_process(),
        clock=SystemClock(), background=False,
    )  # fmt: skip
    log.append_all(list(entries), durable=True)
    log.close()


def damage(run: Path, part: float) -> None:
    segment = max((run / ".jumar/seg").iterdir())
    data = bytearray(segment.read_bytes())
    data[int(len(data) * part)] ^= 0xFF
    segment.write_bytes(data)


def tear(run: Path) -> None:
    """A write that is under way: no damage."""
    append(run)
    segment = max((run / ".jumar/seg").iterdir())
    (run / ".jumar/claims" / f"{segment.name[:6]}.released").unlink()
    os.truncate(segment, segment.stat().st_size - 3)


LOGS: dict[str, Callable[[Path], None]] = {
    "whole": lambda run: None,
    "damaged": lambda run: damage(run, 0.6),
    "unknown": lambda run: append(run, Entry("new.kind?", 1, {"done": 300})),
    "critical": lambda run: append(run, Entry("new.kind", 1, {"done": 300})),
    "newer": lambda run: append(run, Entry("ckpt.committed", 99, {"done": 300})),
    "torn": tear,
}


@pytest.mark.parametrize("what", LOGS)
def test_every_wish_is_answered_as_without_an_index(
    made: Made, said: Callable[..., Said], monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    run = made(DO)
    LOGS[what](run)
    for wish in WISHES:
        with monkeypatch.context() as patch:
            unindexed(patch)
            plain = said(run, *wish)

        assert said(run, *wish) == plain, wish
        assert said(run, *wish) == plain, f"{wish}, the index being there"


@pytest.mark.parametrize("wish", WISHES[:9])
def test_a_wish_is_answered_without_the_story(
    made: Made, said: Callable[..., Said], monkeypatch: pytest.MonkeyPatch, wish: list[str]
) -> None:
    run = made(DO)
    monkeypatch.setattr(Story, "read", lambda *_: pytest.fail("the story was read"))

    code, out, err = said(run, *wish)
    assert (code, err) == (0, "")
    assert len(out) > 40


def test_a_reference_picks_the_events_of_one_checkpoint(
    made: Made, said: Callable[..., Said]
) -> None:
    rows = json.loads(said(made(DO), "live@200r0", "--json")[1])["events"]

    assert {"ckpt.accepted", "ckpt.committed"} <= {row["type"] for row in rows}
    assert {row["payload"]["ckpt_id"] for row in rows} == {"live@200r0"}


def test_a_step_picks_what_was_done_there_and_what_was_decided_up_to_there(
    made: Made, said: Callable[..., Said]
) -> None:
    rows = json.loads(said(made(DO), "--step", "100", "--json")[1])["events"]
    types = {row["type"] for row in rows}

    assert {"guard.verdict", "metric.reported", "ckpt.accepted"} <= types
    for row in rows:
        assert 100 in (row["payload"].get("done"), row["payload"].get("to_done"))


def test_on_a_local_file_system_the_index_lies_in_the_run(
    made: Made, scratch: Path
) -> None:
    run, wish = made(DO), Wish(types=("ckpt.committed",))
    log = str(run / ".jumar")
    found = looked_up(RealDisk(), log, "ext4", wish)

    assert found == told(Story.read(RealDisk(), str(run)), wish) != []
    assert (run / ".jumar/index.sqlite").is_file()
    assert list(scratch.iterdir()) == []


def test_an_entry_that_points_to_a_record_of_another_type_is_not_shown(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record decides, not the index."""
    run, wish = made(DO), Wish(types=("ckpt.committed",))
    log = str(run / ".jumar")
    whole = looked_up(RealDisk(), log, "ext4", wish)
    find = Index.find
    monkeypatch.setattr(Index, "find", lambda self, *_, **__: find(self))

    assert looked_up(RealDisk(), log, "ext4", wish) == whole


NEVER = ev.CkptCommitted(
    ckpt_id="live@7r0", manifest_sha256="0" * 64, parts=(), recovered=False
)


@pytest.mark.parametrize("payload", [{"ckpt_id": 5}, NEVER.to_plain()])
def test_what_was_not_asked_for_is_not_judged(
    made: Made,
    said: Callable[..., Said],
    monkeypatch: pytest.MonkeyPatch,
    payload: dict[str, Any],
) -> None:
    """A payload of another form, and an event that no life cycle allows."""
    run = made(DO)
    append(run, Entry("ckpt.committed", 1, payload))
    code, out, err = said(run, "--type", "ckpt.accepted")
    unindexed(monkeypatch)

    assert (code, err) == (0, "")
    assert said(run, "--type", "ckpt.accepted")[:2] == (3, out)
    assert said(run)[0] == 3


def test_what_was_asked_for_and_does_not_fit_its_type_is_told(
    made: Made, said: Callable[..., Said]
) -> None:
    run = made(DO)
    append(run, Entry("ckpt.committed", 1, {"ckpt_id": 5}))

    code, out, err = said(run, "--type", "ckpt.committed")
    assert (code, len(out.splitlines()), "not trusted" in err) == (3, 4, True)


def test_a_reference_to_a_step_that_nobody_saved_picks_nothing(
    made: Made, said: Callable[..., Said]
) -> None:
    code, out, _ = said(made(DO), "250", "--json")

    assert (code, json.loads(out)["events"]) == (0, [])


def test_damage_that_comes_between_refresh_and_answer_is_told_by_the_story(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, refresh = made(DO), Index.refresh

    def early(self: Index) -> None:
        refresh(self)
        damage(run, 0.6)

    monkeypatch.setattr(Index, "refresh", early)

    assert looked_up(RealDisk(), f"{run}/.jumar", "", Wish(since=1)) is None


def test_no_limit_below_one(made: Made, said: Callable[..., Said]) -> None:
    assert said(made(DO), "--limit", "0")[0] == 2
