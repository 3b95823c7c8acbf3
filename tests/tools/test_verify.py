"""`jumar verify`: what each range of the log rests on, and heads from elsewhere."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SAVES = [{"metric": {"step": s, "name": "loss", "value": 1.0 / s}} for s in (100, 200)]
DO = [SAVES[0], {"save": 100}, SAVES[1], {"save": 200}, {"end": 300}]


def newest_head(run: Path) -> Path:
    return max((run / ".jumar/heads").iterdir())


def test_a_finished_run_is_anchored_by_its_manifests_and_chained_behind_them(
    made: Callable[..., Path], told: Any
) -> None:
    run = made(DO)
    code, text = told("verify", run, "--json")
    said = json.loads(text)

    assert code == 0 and not said["open"]
    assert said["anchors"]["manifest"] == 2
    (_, anchored), (_, signed), (_, chained) = (
        said[name] for name in ("anchored", "signed", "chained")
    )
    assert 0 < anchored == signed < chained == said["records"]
    assert said["sealed"] == said["segments"] == 1


def test_a_run_that_goes_on_is_open_and_never_called_valid(
    made: Callable[..., Path], told: Any
) -> None:
    code, text = told("verify", made(DO[:2]))

    assert code == 0
    assert "OPEN: no terminal event" in text and "valid" not in text


def test_a_head_kept_elsewhere_anchors_all_and_finds_what_was_cut_off(
    made: Callable[..., Path], told: Any, tmp_path: Path
) -> None:
    run = made(DO)
    kept = shutil.copy(newest_head(run), tmp_path / "kept.head")
    code, text = told("verify", run, "--head", kept, "--json")
    assert code == 0 and json.loads(text)["chained"][0] == json.loads(text)["records"]

    shutil.rmtree(run / ".jumar/heads")
    (run / ".jumar/claims/000001.released").unlink(missing_ok=True)
    segment = max((run / ".jumar/seg").iterdir())
    segment.chmod(0o644)
    data = segment.read_bytes()
    segment.write_bytes(data[: data.rindex(b"run.finished") - 60])

    assert told("verify", run)[0] == 0, "nothing in the directory knows of the end"
    code, text = told("verify", run, "--head", kept)
    assert code == 3
    assert "the end was cut off" in text and "kept.head" in text


def test_the_manifest_of_a_copied_checkpoint_is_a_head_too(
    made: Callable[..., Path], told: Any, tmp_path: Path
) -> None:
    run = made(DO)
    copy = shutil.copy(run / "live/300/jumar.json", tmp_path / "jumar.json")
    assert told("verify", run, "--head", copy)[0] == 0

    plain = json.loads(Path(copy).read_text())
    plain["head"]["root"] = "0" * 64
    Path(copy).write_text(json.dumps(plain))
    code, text = told("verify", run, "--head", copy)
    assert code == 3 and "are not those that it tells of" in text


def test_a_signed_head_beside_the_log_covers_what_it_says_and_names_its_key(
    made: Callable[..., Path], told: Any
) -> None:
    run = made(DO)
    head = newest_head(run)
    head.write_bytes(head.read_bytes() + "\n— team/2026 c2lnbmF0dXJl\n".encode())
    code, text = told("verify", run, "--json")
    said = json.loads(text)

    assert code == 0
    assert said["signed"] == [said["anchored"][1], said["records"]]
    assert said["signers"] == ["team/2026"]
    assert "keys not checked: team/2026" in told("verify", run)[1]


@pytest.mark.parametrize("data", [b"", b"jumar.log/x\n1", b"\0" * 90], ids=repr)
def test_a_head_that_is_not_whole_says_nothing_and_is_told(
    made: Callable[..., Path], told: Any, data: bytes
) -> None:
    run = made(DO)
    newest_head(run).write_bytes(data)
    code, text = told("verify", run)
    assert code == 0 and "the head is not whole" in text


def test_a_head_that_contradicts_the_log_is_a_problem(
    made: Callable[..., Path], told: Any
) -> None:
    run = made(DO)
    origin, size, _ = newest_head(run).read_text().splitlines()
    other = base64.b64encode(b"r" * 32).decode()
    newest_head(run).write_text(f"{origin}\n{size}\n{other}\n")
    assert told("verify", run)[0] == 3


@pytest.mark.parametrize("data", [b"hello", b"{}", b'{"schema": 1}', b"\xff" * 100])
def test_a_file_that_is_no_head_is_an_error_that_names_it(
    made: Callable[..., Path], told: Any, tmp_path: Path, data: bytes
) -> None:
    (tmp_path / "odd").write_bytes(data)
    code, text = told("verify", made(DO), "--head", tmp_path / "odd")
    assert code == 2 and "is no head of a log" in text and "odd" in text


def test_several_processes_say_what_one_says(made: Callable[..., Path], told: Any) -> None:
    run = made([DO[0], DO[1], {"crash": {"phase": "write"}}, {"save": 200},
                {"restart": {"from": "auto"}}, {"save": 300}])  # fmt: skip
    assert len(list((run / ".jumar/seg").iterdir())) == 2
    assert told("verify", run, "--jobs", 2) == told("verify", run)
