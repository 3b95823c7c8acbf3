"""Who writes: claims, links that are not what they say, and heads as a fence."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import pytest

from jumar.engine.errors import LogDamaged, LogFailed, RunBusy
from jumar.engine.log import claims, heads
from jumar.engine.log.reader import LogReader
from jumar.engine.log.record import Entry
from jumar.engine.log.writer import LogWriter
from jumar.engine.storage import create_once
from jumar.tools.harness.disk import SimDisk
from jumar.tools.harness.world import SimClock, sim_writer

ROOT = "run/.jumar"


@attrs.define
class OddLinks(SimDisk):
    """A file system whose `link` lies or is not there."""

    how: str = "good"

    def link(self, src: str, dst: str) -> None:
        if self.how == "none":
            raise OSError(errno.EPERM, os.strerror(errno.EPERM), src)
        super().link(src, dst)
        if self.how == "lost answer":
            raise OSError(errno.EIO, os.strerror(errno.EIO), dst)
        if self.how == "asked twice":
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), dst)


@pytest.mark.parametrize("how", ["good", "lost answer", "asked twice", "none"])
def test_one_of_two_gets_the_name_whatever_link_says(how: str) -> None:
    disk = OddLinks(how=how)
    disk.mkdir("d")

    assert create_once(disk, "d/name", b"first")
    disk.how = "good" if how != "none" else how
    assert not create_once(disk, "d/name", b"second")
    assert disk.read("d/name") == b"first"
    assert disk.listdir("d") == ["name"], "no draft is left"


def test_another_error_of_link_is_an_error() -> None:
    disk = SimDisk()
    disk.mkdir("d")

    def failing(name: str, path: str) -> None:
        if name == "link":
            raise OSError(errno.EIO, "planned", path)

    disk.before = failing
    with pytest.raises(OSError, match="planned"):
        create_once(disk, "d/name", b"x")
    assert disk.listdir("d") == []


@pytest.mark.parametrize("how", ["lost answer", "asked twice", "none"])
def test_a_log_is_opened_and_taken_over_where_links_are_odd(how: str) -> None:
    disk = OddLinks(how=how)
    for epoch in (1, 2, 3):
        log = opened(disk)
        assert log.epoch == epoch
        log.append(_note(epoch), durable=True)


def opened(disk: SimDisk, who: claims.Writer | None = None) -> LogWriter:
    return LogWriter.open(disk, ROOT, run_id="0" * 32, who=who or sim_writer(),
                          clock=SimClock(), background=False)  # fmt: skip


def _note(n: int) -> Any:
    return Entry("test.note", 1, {"n": n})


def test_an_empty_claim_hides_nobody_and_the_next_epoch_is_free() -> None:
    """Where there are no links, a crash may leave a claim without a word."""
    disk = SimDisk()
    opened(disk).append(_note(1), durable=True)
    disk.create(f"{ROOT}/claims/000002").close()

    assert opened(disk).epoch == 3


@pytest.fixture
def network() -> SimDisk:
    return SimDisk(fs="nfs4")


def blind(disk: SimDisk, act: Callable[[], object]) -> object:
    """Let an act see no later claim, as a client with old names would."""
    seen = type(disk).stat

    def stat(self: SimDisk, path: str) -> Any:
        return None if path.endswith("claims/000002") else seen(self, path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(disk), "stat", stat)
        return act()


def test_a_writer_that_cannot_see_its_successor_is_stopped_by_the_next_head(
    network: SimDisk,
) -> None:
    sleeper = opened(network)
    sleeper.append(_note(1), durable=True)
    opened(network).append(_note(2), durable=True)

    with pytest.raises(LogFailed, match="took over"):
        blind(network, lambda: sleeper.append(_note(666), durable=True))


def test_on_a_local_disk_no_head_is_made_for_a_plain_barrier() -> None:
    disk = SimDisk(fs="ext4")
    log = opened(disk)
    before = heads.ordinals(disk, ROOT)
    log.append(_note(1), durable=True)
    assert before == heads.ordinals(disk, ROOT)
    log.append_all([_note(2)], durable=True, witness=True)
    assert len(heads.ordinals(disk, ROOT)) == len(before) + 1


def test_a_barrier_between_the_reading_and_the_head_of_a_successor_is_read_again(
    network: SimDisk,
) -> None:
    """The old writer acknowledges while the new one looks: nothing of it is lost."""
    sleeper = opened(network)
    sleeper.append(_note(1), durable=True)
    acked: list[int] = []

    def beside(name: str, path: str) -> None:
        if name == "create" and "/heads/" in path and len(acked) < 3:
            network.before = None
            blind(network, lambda: sleeper.append(_note(10 + len(acked)), durable=True))
            acked.append(10 + len(acked))
            network.before = beside

    network.before = beside
    successor = opened(network)
    network.before = None
    successor.append(_note(2), durable=True)

    notes = [r.payload["n"] for r in LogReader(network, ROOT) if r.type == "test.note"]
    assert notes == [1, 10, 11, 12, 2] and acked == [10, 11, 12]
    with pytest.raises(LogFailed):
        sleeper.append(_note(666), durable=True)


def test_a_third_process_that_claims_meanwhile_is_named(network: SimDisk) -> None:
    opened(network).append(_note(1), durable=True)
    raced: list[LogWriter] = []

    def beside(name: str, path: str) -> None:
        if name == "create" and "/heads/" in path and not raced:
            network.before = None
            raced.append(opened(network))

    network.before = beside
    with pytest.raises(RunBusy, match="process 1 on sim"):
        opened(network)
    network.before = None
    raced[0].append(_note(2), durable=True)


def test_an_open_refuses_a_log_that_is_shorter_than_its_newest_head() -> None:
    disk = SimDisk()
    log = opened(disk)
    log.append(_note(1), durable=True)
    whole = disk.read(f"{ROOT}/seg/000001-000000000000.seg")
    log.append_all([_note(2)], durable=True, witness=True)
    node = disk._node(f"{ROOT}/seg/000001-000000000000.seg")
    del node.data[len(whole) :]

    with pytest.raises(LogDamaged, match="acknowledged records were cut off"):
        opened(disk)


def test_the_kind_of_file_system_is_in_the_log(network: SimDisk) -> None:
    opened(network).flush()
    first = next(iter(LogReader(network, ROOT)))
    assert (first.type, first.v, first.payload["fs"]) == ("writer.claimed?", 2, "nfs4")


def test_a_late_error_of_close_kills_the_writer() -> None:
    disk = SimDisk(fs="nfs")
    log = opened(disk)
    log.append(_note(1), durable=True)

    def failing(name: str, path: str) -> None:
        if name == "close" and path.endswith(".seg"):
            disk.before = None
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT), path)

    disk.before = failing
    with pytest.raises(LogFailed, match="quota"):
        log.close()
    assert opened(disk).epoch == 2


def test_the_name_of_a_head_is_never_free_again(network: SimDisk) -> None:
    """However many barriers pass while a successor reads, one of the two is stopped."""
    sleeper = opened(network)
    acked: list[int] = []

    def beside(name: str, path: str) -> None:
        if name == "create" and "/heads/" in path and not acked:
            network.before = None
            for n in range(30):
                blind(network, partial(sleeper.append, _note(n), durable=True))
                acked.append(n)

    network.before = beside
    opened(network).append(_note(666), durable=True)

    notes = [r.payload["n"] for r in LogReader(network, ROOT) if r.type == "test.note"]
    assert notes == [*acked, 666] and len(acked) == 30
    with pytest.raises(LogFailed, match="took over"):
        blind(network, lambda: sleeper.append(_note(667), durable=True))
