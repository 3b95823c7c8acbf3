"""`jumar pin` and `unpin`: with a live writer, without one, and with an unknown one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgpack
import pytest

from jumar import KeepLast, Policy, open_run
from jumar.engine.real_disk import RealDisk
from jumar.tools.harness.world import SimPayload
from jumar.tools.views.story import Story

POLICY = Policy(keep=[KeepLast(1)])


def opened(where: Path) -> Any:
    return open_run(str(where), policy=POLICY, payload=SimPayload(0))


def pinned(where: Path, ckpt_id: str = "live@100r0") -> bool:
    state = Story.read(RealDisk(), str(where)).state
    return ckpt_id in state.ckpts and state.ckpts[ckpt_id].pinned


def test_beside_a_live_writer_it_is_handed_over_and_held(tmp_path: Path, told: Any) -> None:
    where = tmp_path / "run"
    with opened(where) as run:
        run.save(100)
        code, text = told("pin", where, "latest", "--why", "a paper", "--who", "ada")
        assert code == 0 and "handed to the writer (process" in text
        run.save(200)
        assert (where / "live/100").is_dir() and pinned(where)
    assert told("log", where, "live@100r0")[1].count("ckpt.pinned") == 1


def test_without_a_writer_it_is_done_at_once_and_undone(tmp_path: Path, told: Any) -> None:
    where = tmp_path / "run"
    with opened(where) as run:
        run.save(100)
    code, text = told("pin", where, "100", "--why", "a paper", "--json")
    said = json.loads(text)
    assert code == 0 and said["writer"] is None and said["seq"] > 0 and pinned(where)

    with opened(where) as run:
        run.save(200)
    assert (where / "live/100").is_dir()
    assert told("unpin", where, "live@100r0") == (
        0, f"live@100r0 is no longer pinned (seq {_last(where)})\n",
    )  # fmt: skip
    assert not pinned(where)
    assert told("verify", where)[0] == 0


def _last(where: Path) -> int:
    return Story.read(RealDisk(), str(where)).told[-1][0].seq


def test_a_writer_on_another_host_is_never_replaced(tmp_path: Path, told: Any) -> None:
    where = tmp_path / "run"
    with opened(where) as run:
        run.save(100)
    claim = max(p for p in (where / ".jumar/claims").iterdir() if "." not in p.name)
    plain = msgpack.unpackb(claim.read_bytes())
    claim.write_bytes(msgpack.packb({**plain, "host": "elsewhere"}))
    Path(f"{claim}.released").unlink()

    code, text = told("pin", where, "100", "--why", "a paper")
    assert code == 0 and "on elsewhere" in text and not pinned(where)
    assert len(list((where / ".jumar/inbox").iterdir())) == 1
    with opened(where):
        assert pinned(where)


@pytest.mark.parametrize("ref", ["200", "live@100r7", "nonsense"])
def test_what_is_no_checkpoint_is_an_error(tmp_path: Path, told: Any, ref: str) -> None:
    where = tmp_path / "run"
    with opened(where) as run:
        run.save(100)
    code, text = told("pin", where, ref, "--why", "x")
    assert code == 2 and "instead" in text
    assert not (where / ".jumar/inbox").exists()


def test_a_pin_says_what_for(tmp_path: Path, told: Any) -> None:
    assert told("pin", tmp_path, "100")[0] == 2
