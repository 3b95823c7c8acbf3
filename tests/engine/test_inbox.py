"""What operators ask beside a live writer: taken once, durably, and never in its way."""

from __future__ import annotations

import errno
import os
from functools import partial
from typing import Any

import msgpack
import pytest

from jumar.engine.inbox import Request, submit
from jumar.reducers import events as ev
from jumar.reducers.checkpoints import branch
from jumar.reducers.errors import SchemaError
from jumar.tools.harness.disk import SimDisk
from jumar.tools.harness.faults import dies_at
from jumar.tools.harness.life import ROOT, STEPS, Life, check
from jumar.tools.views.story import Story

LOG = f"{ROOT}/.jumar"
INBOX = f"{LOG}/inbox"


def asked(n: int, action: str = "pin", ckpt_id: str = "live@100r0") -> Request:
    return Request(action, ckpt_id, who="me", why="a paper", asked_ns=n)


def begun(saves: int = 2) -> Life:
    life = Life()
    life.open()
    for done in STEPS[:saves]:
        life.save(done)
    return life


def waiting(disk: SimDisk) -> list[str]:
    return disk.listdir(INBOX) if disk.stat(INBOX) else []


def pins(life: Life) -> list[str]:
    told = Story.read(life.disk, ROOT).of(ev.CkptPinned, ev.CkptUnpinned)
    return [event.type for _, event in told]


def test_a_pin_holds_at_the_very_boundary_that_would_have_pruned_it() -> None:
    life = begun()
    submit(life.disk, LOG, asked(1))
    life.save(STEPS[2])

    assert life.disk.stat(f"{ROOT}/live/100") is not None
    assert {100, 200, 300} == {ckpt.done for ckpt in branch(life.runs[1].current())}
    assert all(run.current().ckpts["live@100r0"].pinned for run in life.runs.values())
    life.save(STEPS[3])
    assert waiting(life.disk) == [], "it went when its event was durable"
    submit(life.disk, LOG, asked(2, "unpin"))
    life.save(500)
    assert life.disk.stat(f"{ROOT}/live/100") is None
    assert pins(life) == ["ckpt.pinned", "ckpt.unpinned"]


def test_requests_are_taken_in_the_order_in_which_they_were_asked() -> None:
    life = begun()
    submit(life.disk, LOG, asked(3, "unpin"))
    submit(life.disk, LOG, asked(1))
    submit(life.disk, LOG, asked(2))
    life.save(STEPS[2])

    assert pins(life) == ["ckpt.pinned", "ckpt.unpinned"], "the second pin changed nothing"


def test_an_open_takes_what_was_asked_while_nobody_wrote() -> None:
    life = begun()
    for run in life.runs.values():
        run.close()
    submit(life.disk, LOG, asked(1))
    life.runs = {}
    life.open()

    assert life.runs[0].current().ckpts["live@100r0"].pinned
    assert life.runs[1].current().ckpts["live@100r0"].pinned
    life.save(STEPS[2])
    assert life.disk.stat(f"{ROOT}/live/100") is not None
    assert waiting(life.disk) == []


def test_power_loss_anywhere_in_a_submission_leaves_it_whole_or_absent() -> None:
    whole = absent = 0
    for power in (None, "kill"):
        for n in range(1, 40):
            life = begun()
            dies_at(life.disk, n, partial(submit, life.disk, LOG, asked(1)))
            if power is None:
                life.disk.power_loss()
            life.runs = {}
            life.open()
            taken = life.runs[0].current().ckpts["live@100r0"].pinned
            whole, absent = whole + taken, absent + (not taken)
            check(life)
    assert whole and absent


def test_a_crash_at_any_call_of_the_boundary_that_takes_it_loses_no_request() -> None:
    """It is in force or still waiting, and never comes back after it was undone."""
    total = 0
    for n in range(1, 400, 3):
        life = begun()
        submit(life.disk, LOG, asked(1))
        if not dies_at(life.disk, n, partial(life.save, STEPS[2])):
            break
        total += 1
        life.disk.power_loss()
        life.runs = {}
        life.open()
        assert life.runs[0].current().ckpts["live@100r0"].pinned, n
        life.runs[0].unpin("live@100r0", who="me")
        life.save(500)
        life.runs = {}
        life.open()
        held = life.runs[0].current().ckpts.get("live@100r0")
        assert held is None or not held.pinned, n
    assert total > 10


GOOD = {"v": 1, "action": "pin", "ckpt_id": "live@100r0", "who": "", "why": "",
        "asked_ns": 1}  # fmt: skip
ODD: dict[str, bytes] = {
    "not msgpack": b"\xc1",
    "a number": msgpack.packb(7),
    "no version": msgpack.packb({"action": "pin"}),
    "another version": msgpack.packb({"v": 9}),
    "another action": msgpack.packb({**GOOD, "action": "rm"}),
    "an id with a path": msgpack.packb({**GOOD, "ckpt_id": "../etc"}),
    "too large": b"x" * 20_000,
    "a field more": msgpack.packb({**GOOD, "run": "rm"}),
}


@pytest.mark.parametrize("data", ODD.values(), ids=ODD.keys())
def test_what_is_no_request_changes_nothing_and_stays(data: bytes) -> None:
    life = begun()
    name = f"{1:020d}-{'a' * 32}.req"
    life.disk.foreign_tree(INBOX, {name: data, "README": b"hello", "../x": b""})
    before = waiting(life.disk)

    assert life.save(STEPS[2]) == "committed"
    assert pins(life) == [] and before == waiting(life.disk)


def test_a_link_in_the_inbox_is_not_followed() -> None:
    life = begun()
    submit(life.disk, LOG, asked(1))
    (name,) = waiting(life.disk)
    life.disk.rename(f"{INBOX}/{name}", f"{ROOT}/elsewhere")
    life.disk.symlink("../../elsewhere", f"{INBOX}/{name}")
    life.save(STEPS[2])
    assert pins(life) == []


def test_what_cannot_be_carried_out_is_put_aside() -> None:
    life = begun()
    submit(life.disk, LOG, asked(1, ckpt_id="live@999r0"))
    life.save(STEPS[2])
    assert [name.endswith(".refused") for name in waiting(life.disk)] == [True]
    assert pins(life) == []


@pytest.mark.parametrize("call", ["listdir", "read", "stat", "unlink", "rename"])
def test_an_inbox_that_cannot_be_read_fails_no_save(call: str) -> None:
    life = begun()
    submit(life.disk, LOG, asked(1))
    submit(life.disk, LOG, asked(2, ckpt_id="live@999r0"))

    def failing(name: str, path: str) -> None:
        if name == call and "/inbox" in path:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    life.disk.before = failing
    assert life.save(STEPS[2]) == "committed"
    assert life.save(STEPS[3]) == "committed"


def test_an_empty_inbox_costs_a_look_and_no_sync() -> None:
    def calls(life: Life) -> list[str]:
        seen: list[str] = []
        life.disk.before = lambda name, path: seen.append(name) if "inbox" in path else None
        life.save(STEPS[2])
        life.disk.before = None
        return seen

    assert calls(begun()) == ["stat"]
    life = begun()
    life.disk.foreign_tree(INBOX, {})
    assert calls(life) == ["stat", "listdir"]


@pytest.mark.parametrize("bad", [{"ckpt_id": "x"}, {"who": "w" * 300}, {"why": "w" * 5000}])
def test_what_the_log_would_not_take_is_refused_where_it_is_asked(
    bad: dict[str, Any],
) -> None:
    life = begun()
    plain: dict[str, Any] = {key: value for key, value in GOOD.items() if key != "v"}
    with pytest.raises(SchemaError):
        submit(life.disk, LOG, Request(**{**plain, **bad}))
    assert waiting(life.disk) == []
