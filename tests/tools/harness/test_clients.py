"""What a client of a network file system may see late, and what it never does."""

from __future__ import annotations

from collections import Counter

import pytest

from jumar.tools.harness.clients import MAY, Client, clients
from jumar.tools.harness.disk import SimDisk


def two(fs: str = "nfs", seed: int = 1) -> tuple[Client, Client]:
    disk = SimDisk()
    disk.mkdir("d")
    here, there = clients(disk, fs, (seed, seed + 1))
    return here, there


def put(client: Client, path: str, data: bytes) -> None:
    file = client.create(path)
    file.write(data)
    file.sync()
    file.close()


def test_a_client_sees_at_once_what_it_did_itself() -> None:
    for seed in range(30):
        here, _ = two(seed=seed)
        assert here.stat("d/a") is None and here.listdir("d") == []
        put(here, "d/a", b"mine")
        assert here.read("d/a") == b"mine"
        assert here.stat("d/a") is not None and here.listdir("d") == ["a"]


@pytest.mark.parametrize("fs", MAY)
def test_what_others_did_is_seen_late_in_every_way_and_in_no_other(fs: str) -> None:
    late: Counter[str] = Counter()
    for seed in range(40):
        here, there = two(fs, seed)
        assert here.stat("d/a") is None and here.listdir("d") == []
        file = there.create("d/a")
        file.write(b"one")
        for _ in range(3):
            here.stat("d/a"), here.listdir("d")
        assert here.read("d/a") == b"one"
        file.write(b"two")
        for _ in range(3):
            seen = here.read("d/a")
            assert seen in (b"one", b"onetwo", b"one\0\0\0")
        late += here.late
    assert {kind for kind, n in late.items() if n} == MAY[fs]


def test_a_refresh_ends_it_and_so_does_time() -> None:
    for seed in range(30):
        for how in ("refresh", "time"):
            here, there = two(seed=seed)
            assert here.stat("d/a") is None and here.listdir("d") == []
            put(there, "d/a", b"one")
            if how == "refresh":
                here.refresh()
            else:
                for _ in range(here.bound + 1):
                    here.stat("elsewhere")
            assert here.stat("d/a") is not None
            assert here.listdir("d") == ["a"] and here.read("d/a") == b"one"


def test_exclusive_names_are_decided_by_the_server() -> None:
    for seed in range(30):
        here, there = two(seed=seed)
        assert here.stat("d/a") is None
        put(there, "d/a", b"theirs")
        with pytest.raises(FileExistsError):
            here.create("d/a")
        put(here, "d/mine", b"x")
        with pytest.raises(FileExistsError):
            here.link("d/mine", "d/a")


def test_a_file_that_was_closed_is_seen_whole_by_whoever_opens_it() -> None:
    for seed in range(30):
        here, there = two(seed=seed)
        file = there.create("d/a")
        file.write(b"one")
        here.read("d/a")
        file.write(b"two")
        file.close()
        assert here.read("d/a") == b"onetwo"
