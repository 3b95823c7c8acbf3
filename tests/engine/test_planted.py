"""
Planted bugs: each known way to get durability wrong is found by the searches.

Each bug is put in, and the same search that passes without it must fail within a fixed
number of examples, derandomised.  A search that finds none of these proves nothing.
"""

from __future__ import annotations

import os
import random
import types
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest

from jumar.engine.layout import Layout
from jumar.engine.log import (
    chain,
    claims,
    damage,
    fence,
    frame,
    links,
    output,
    reader,
    segment,
)
from jumar.engine.publish import Publisher
from jumar.reducers import events as ev
from jumar.reducers.errors import JumarError
from jumar.tools.harness.life import Life, calls_of, check, crash_at
from jumar.tools.harness.log_machine import search

Plant = Callable[[pytest.MonkeyPatch], None]
EXAMPLES = 100
FOUND = (AssertionError, JumarError, ExceptionGroup)


def no_sync(patch: pytest.MonkeyPatch) -> None:
    """The record is written and acknowledged, not synced."""

    def write_only(self: output.Output, batch: list[bytes]) -> None:
        if batch and self._file is not None:
            self._file.write(b"".join(batch))
            self.durable += len(b"".join(batch))

    patch.setattr(output.Output, "_sync", write_only)


def no_directory_sync(patch: pytest.MonkeyPatch) -> None:
    """A new segment's name is not durable when its records are."""

    def begin(disk: Any, root: str, name: str, header: bytes) -> Any:
        file = disk.create(f"{root}/seg/{name}")
        file.write(header)
        file.sync()
        return file

    patch.setattr(output, "begin", begin)


def retried_sync(patch: pytest.MonkeyPatch) -> None:
    """The second fsync says that all is well; the pages are gone."""
    right = output.Output._sync

    def again(self: output.Output, batch: list[bytes]) -> None:
        try:
            right(self, batch)
        except OSError:
            if self._file is not None:
                self._file.sync()
                self.durable += len(b"".join(batch))

    patch.setattr(output.Output, "_sync", again)


def torn_tail_counted(patch: pytest.MonkeyPatch) -> None:
    """A successor counts every byte of its predecessor, whole frames or not."""
    right = chain.Chain.load.__func__  # type: ignore[attr-defined]

    def load(cls: type[chain.Chain], disk: Any, root: str) -> chain.Chain:
        found: chain.Chain = right(cls, disk, root)
        if found.pred is None:
            return found
        data = disk.read(f"{root}/seg/{found.pred.name}")
        whole = segment.Pred(
            found.pred.name, len(data), damage.sha256_of(data, len(data)), 0
        )
        return attrs.evolve(found, pred=whole)

    patch.setattr(chain.Chain, "load", classmethod(load))


def zeros_are_records(patch: pytest.MonkeyPatch) -> None:
    """Twelve zero bytes pass for an empty record."""

    def scan(data: bytes, start: int = 0, limit: int | None = None) -> frame.Scan:
        found = frame.scan(data, start, limit)
        while found.why == "zeros" and not any(data[found.end : found.end + 12]):
            more = frame.scan(data, found.end + 12, limit)
            found = frame.Scan(
                [*found.bodies, b"\x00", *more.bodies],
                [*found.offsets, found.end, *more.offsets],
                more.end,
                more.why,
            )
        return found

    patch.setattr(reader, "scan", scan)


def checksum_of_the_length(patch: pytest.MonkeyPatch) -> None:
    """The checksum does not cover the body."""

    def crc32(data: bytes, value: int = 0) -> int:
        return value or zlib.crc32(data)

    patch.setattr(frame, "zlib", types.SimpleNamespace(crc32=crc32))
    frame._seeded.cache_clear()


def frozen_count_ignored(patch: pytest.MonkeyPatch) -> None:
    """All bytes of a predecessor are read, those of a zombie too."""
    right = links._ancestry

    def ancestry(*args: Any) -> tuple[list[links.Link], links.Finding | None]:
        found, problem = right(*args)
        return [attrs.evolve(link, limit=None) for link in found], problem

    patch.setattr(links, "_ancestry", ancestry)


def no_fence(patch: pytest.MonkeyPatch) -> None:
    """A writer acknowledges without looking for a successor."""

    class Blind:
        path_of = staticmethod(lambda root, epoch: f"{root}/nobody")

        def __getattr__(self, name: str) -> Any:
            return getattr(claims, name)

    patch.setattr(fence, "claims", Blind())


LOG_BUGS = {
    "no fsync before the acknowledgement": no_sync,
    "no directory fsync on roll": no_directory_sync,
    "retry after a failed fsync": retried_sync,
    "torn tail not handled": torn_tail_counted,
    "zero-filled tail read as a record": zeros_are_records,
    "checksum of the length only": checksum_of_the_length,
    "successor not looked for": no_fence,
    "predecessor's valid byte count ignored": frozen_count_ignored,
}


@pytest.fixture(autouse=True)
def clean_cache() -> Iterator[None]:
    yield
    frame._seeded.cache_clear()


@pytest.mark.parametrize("bug", LOG_BUGS)
def test_a_bug_of_the_log_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    LOG_BUGS[bug](monkeypatch)

    with pytest.raises(FOUND):
        search(EXAMPLES, shrink=False)


def accepted_later(patch: pytest.MonkeyPatch) -> None:
    """The staging name may exist before anybody can know what it is."""
    patch.setattr(ev.CkptAccepted, "barrier", False)


def no_parent_sync(patch: pytest.MonkeyPatch) -> None:
    """A checkpoint is committed whose final name the power may take back."""

    def put(self: Publisher, ckpt: Any, source: str) -> None:
        target = self.layout.place(ckpt)
        if self.disk.stat(target) is not None:
            self._move_aside(target)
        self.disk.rename(source, target)

    patch.setattr(Publisher, "put", put)


def no_staging_sync(patch: pytest.MonkeyPatch) -> None:
    """The parts' names are not durable when the checkpoint's is."""
    right = Life.open

    def opened(self: Life) -> None:
        right(self)
        staging = Layout("run").family("live") + "/."
        sync_dir = type(self.disk).sync_dir

        def skipping(disk: Any, path: str) -> None:
            if not path.startswith(staging):
                sync_dir(disk, path)

        patch.setattr(type(self.disk), "sync_dir", skipping)

    patch.setattr(Life, "open", opened)


PUBLISH_BUGS = {
    "ckpt.accepted is no barrier": accepted_later,
    "parent directory not synced after the rename": no_parent_sync,
    "staging directory not synced before the rename": no_staging_sync,
}


def play_all(limit: int) -> None:
    """Power fails at every call of a life, all unsynced is lost or chance decides."""
    total = calls_of(lambda life: life.play())
    for n in random.Random(1).sample(range(1, total + 1), min(total, limit)):
        for power in ("power", "torn"):
            life = Life()
            crash_at(life, n, life.play, power=power)
            life.runs = {}
            life.open()
            check(life)


@pytest.mark.parametrize("bug", PUBLISH_BUGS)
def test_a_bug_of_publication_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PUBLISH_BUGS[bug](monkeypatch)

    with pytest.raises(FOUND):
        play_all(400)


def test_without_a_bug_the_search_of_publication_finds_nothing() -> None:
    """That of the log is `test_machine.py`, with the same budget."""
    play_all(400 if os.environ.get("JUMAR_SOAK") else 40)
