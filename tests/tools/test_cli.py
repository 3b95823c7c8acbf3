"""What people type, what they read, and the exit codes they can rely on."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jumar.tools.cli import cli, main

pytestmark = pytest.mark.usefixtures("scratch")

Made = Callable[..., Path]
SAVES: list[Any] = [
    {"save": 100, "metrics": {"loss": 0.9}},
    {"save": 200, "metrics": {"loss": 0.5}},
    {"save": 300, "metrics": {"loss": 0.7}},
    {"save": 400, "metrics": {"loss": "nan"}},
]
VERBS = ("status", "list", "log", "verify")


@pytest.fixture
def jumar(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """`jumar(verb, ...)` -> (exit code, stdout, stderr)."""

    def run(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return run


Jumar = Callable[..., tuple[int, str, str]]


def test_why_of_a_pruned_checkpoint_names_rule_and_rivals(made: Made, jumar: Jumar) -> None:
    code, out, _ = jumar("why", made(SAVES), 100)
    lines = out.splitlines()

    assert code == 0
    assert lines[0] == "live@100r0 is gone: pruned by keep_last=2"
    says = {line.split()[0]: line for line in lines[1:]}
    assert "2 of 2 ranks finite over (0, 100]" in says["verdict"]
    assert "keep_last=2 kept 200 300; keep_best=1 kept 200 (0.5)" in says["pruned"]
    assert all(" seq " in line for line in lines[1:]), "each sentence cites its event"


def test_why_of_a_rejected_step_names_component_rank_and_step(
    made: Made, jumar: Jumar
) -> None:
    bad = {"bad": {"step": 450, "ranks": [1], "component": "loss"}}
    run = made([*SAVES, bad, {"save": 500}, {"save": 600}])

    code, out, _ = jumar("why", run, 500)
    assert (
        code,
        "rejected: loss not finite on rank 1, first at step 450" in out,
    ) == (0, True)
    assert "nothing was restored" in jumar("why", run, 600)[1]
    code, out, _ = jumar("status", run)
    assert (code, "live is rejected until something is restored" in out) == (1, True)


def test_why_of_an_aborted_step_names_phase_rank_and_error(
    made: Made, jumar: Jumar
) -> None:
    fail = {"fail": {"rank": 1, "phase": "write", "error": "ENOSPC"}}
    _, out, _ = jumar("why", made([*SAVES, fail, {"save": 500}]), 500)

    assert out.startswith(
        "nothing was saved at 500: aborted in phase write on rank 1: rank 1:"
    )
    assert "No space left on device" in out


def test_why_of_a_step_that_nobody_saved_names_its_neighbours(
    made: Made, jumar: Jumar
) -> None:
    code, out, _ = jumar("why", made(SAVES), 250)

    assert code == 0
    assert (
        "no save of live was asked for at that step; the nearest were at 200 and 300" in out
    )


def test_why_of_a_superseded_checkpoint_names_the_restart(made: Made, jumar: Jumar) -> None:
    _, out, _ = jumar("why", made([*SAVES, {"restart": {"from": 300}}, {"save": 350}]), 400)

    assert "live@400r0 is kept and superseded" in out
    assert "behind by attempt 1, which began from live@300r0" in out


def test_why_of_a_missing_checkpoint_blames_no_rule(made: Made, jumar: Jumar) -> None:
    run = made(SAVES)
    shutil.rmtree(run / "live/400")
    code, out, _ = jumar("why", run, 400)

    assert (
        code,
        "missing on the disk, and no rule of the log did that" in out,
    ) == (1, True)
    code, out, _ = jumar("status", run)
    assert (code, "a restart would load live@300r0, not the latest" in out) == (1, True)


def test_why_of_a_kept_one_says_by_what(made: Made, jumar: Jumar) -> None:
    run = made([*SAVES, {"pin": 300}, {"save": 500}])

    assert "is kept: it is best 1" in jumar("why", run, 200)[1]
    assert "is kept: it is the latest" in jumar("why", run, "latest")[1]
    assert "it is pinned" in jumar("why", run, 300)[1]


@pytest.mark.parametrize(
    ("ref", "named"),
    [
        ("latest", "live@400r0"),
        ("best", "live@200r0"),
        ("restart", "live@400r0"),
        ("300", "live@300r0"),
        ("live@300", "live@300r0"),
        ("live@300r0", "live@300r0"),
    ],
)
def test_a_reference_names_a_checkpoint(
    made: Made, jumar: Jumar, ref: str, named: str
) -> None:
    code, out, _ = jumar("show", made(SAVES), ref, "--json")

    assert (0, named) == (code, json.loads(out)["ckpt_id"])


def test_a_sequence_number_and_a_digest_are_references_too(
    made: Made, jumar: Jumar
) -> None:
    run = made(SAVES)
    shown = json.loads(jumar("show", run, "300", "--json")[1])
    committed = next(e for e in shown["events"] if e["type"] == "ckpt.committed")

    for ref in (
        f"@seq:{committed['seq']}",
        committed["payload"]["parts"][1]["sha256"][:40],
    ):
        assert json.loads(jumar("show", run, ref, "--json")[1])["ckpt_id"] == "live@300r0"


@pytest.mark.parametrize(
    "ref", ["best~9", "nonsense", "live@300r7", "@seq:99999", "", "ffffff"]
)
def test_a_reference_that_names_nothing_is_a_usage_error(
    made: Made, jumar: Jumar, ref: str
) -> None:
    code, out, err = jumar("why", made(SAVES), ref)

    assert (code, out) == (2, "")
    assert "instead:" in err and "names nothing" in err


def test_list_shows_what_is_there_and_with_all_what_was(made: Made, jumar: Jumar) -> None:
    run = made(SAVES)
    _, out, _ = jumar("list", run)
    _, everything, _ = jumar("list", run, "--all")

    assert [line.split()[0] for line in out.splitlines()[1:]] == [
        "live@200r0",
        "live@300r0",
        "live@400r0",
    ]
    assert "live@100r0  pruned" in everything
    rows = json.loads(jumar("list", run, "--json")[1])["checkpoints"]
    assert rows[-1]["metrics"]["loss"] == {"state": "nan", "value": None}


def test_log_filters_by_type_and_sequence(made: Made, jumar: Jumar) -> None:
    run = made(SAVES)
    _, out, _ = jumar("log", run, "--type", "ckpt.committed")
    events = json.loads(jumar("log", run, "--since", "10", "--json")[1])["events"]

    assert len(out.splitlines()) == 4
    assert all(event["seq"] >= 10 for event in events)
    assert '"payload"' in jumar("log", run, "--full")[1]


def test_verify_says_ok_and_that_the_run_is_open(made: Made, jumar: Jumar) -> None:
    code, out, _ = jumar("verify", made(SAVES))

    assert code == 0
    assert "OPEN: no terminal event" in out and out.rstrip().endswith("ok")


def test_verify_of_a_finished_run(made: Made, jumar: Jumar) -> None:
    assert "finished" in jumar("verify", made([*SAVES, {"end": 400}]))[1]


def _damage(run: Path) -> None:
    segment = min((run / ".jumar/seg").iterdir())
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 0xFF
    segment.write_bytes(data)


@pytest.mark.parametrize("verb", VERBS)
def test_a_damaged_log_is_exit_3_and_says_where(
    made: Made, jumar: Jumar, verb: str
) -> None:
    run = made(SAVES)
    _damage(run)
    code, out, err = jumar(verb, run)

    assert code == 3
    assert "000001-000000000000.seg at byte" in out + err


def test_what_is_readable_of_a_damaged_log_is_still_printed(
    made: Made, jumar: Jumar
) -> None:
    run = made(SAVES)
    whole = len(jumar("log", run)[1].splitlines())
    _damage(run)
    kept = len(jumar("log", run)[1].splitlines())

    assert 0 < kept < whole


@pytest.mark.parametrize("verb", [*VERBS, "why", "show"])
def test_a_directory_that_is_no_run_is_a_usage_error(
    tmp_path: Path, jumar: Jumar, verb: str
) -> None:
    code, out, err = jumar(verb, tmp_path, *(["1"] if verb in ("why", "show") else []))

    assert (code, out) == (2, "")
    assert ".jumar/IDENTITY" in err


@pytest.mark.parametrize("verb", [*VERBS, "why", "show"])
def test_json_is_one_object_with_its_schema(made: Made, jumar: Jumar, verb: str) -> None:
    rest = ["100"] if verb in ("why", "show") else []
    _, out, _ = jumar(verb, made(SAVES), *rest, "--json")

    assert f"jumar.{verb}/1" == json.loads(out)["schema"]


def test_every_command_has_a_help_text_and_a_json_form() -> None:
    for name, command in cli.commands.items():
        assert command.help, name
        options = {option for p in command.params for option in p.opts}
        assert "--json" in options or name == "demo", name


def test_simulate_prints_the_final_state_and_the_difference(
    tmp_path: Path, jumar: Jumar
) -> None:
    file = tmp_path / "s.json"
    plain = {
        "policy": {"keep": [{"last": 1}]},
        "do": [{"save": 1}],
        "expect": {"latest": 2},
    }
    file.write_text(json.dumps(plain))
    code, out, _ = jumar("simulate", file)
    assert (code, "differs: latest was expected 2, is 1" in out) == (1, True)
    file.write_text(json.dumps({**plain, "expect": {"latest": 1}}))
    assert jumar("simulate", file)[0] == 0
    file.write_text("{nonsense")
    code, _, err = jumar("simulate", file)
    assert (code, "not JSON" in err) == (2, True)
    assert jumar("simulate", tmp_path / "absent.json")[0] == 2


def test_names_that_would_harm_a_terminal_are_escaped(made: Made, jumar: Jumar) -> None:
    run = made([{"save": 100, "metrics": {"evil\x1b[2J\u202e\n": 1.0}}])
    for verb, rest in (("log", []), ("why", ["100"]), ("show", ["100"])):
        _, out, _ = jumar(verb, run, *rest)
        assert "\x1b" not in out and "\u202e" not in out


def test_a_run_that_is_read_is_never_written(made: Made, jumar: Jumar) -> None:
    run = made(SAVES)
    before = {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in run.rglob("*")}
    for verb in (*VERBS, "why", "show"):
        jumar(verb, run, *(["100"] if verb in ("why", "show") else []))

    assert before == {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in run.rglob("*")}


def test_why_and_simulate_answer_without_torch(made: Made, tmp_path: Path) -> None:
    """A machine without torch is one where importing it fails."""
    run = made(SAVES)
    file = tmp_path / "s.json"
    file.write_text(json.dumps({"policy": {"keep": [{"last": 1}]}, "do": [{"save": 1}]}))
    code = (
        "import sys; sys.modules['torch'] = sys.modules['numpy'] = None\n"
        "from jumar.tools.cli import main\n"
        "main(sys.argv[1:])"
    )
    for arguments in (
        ["why", str(run), "100"],
        ["simulate", str(file)],
        ["status", str(run)],
    ):
        done = subprocess.run([sys.executable, "-I", "-c", code, *arguments], check=False)
        assert done.returncode == 0


def test_the_demo_without_its_extra_says_what_to_install(
    jumar: Jumar, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    code, _, err = jumar("demo")

    assert (code, "the demo needs torch" in err and "jumar[demo]" in err) == (2, True)
