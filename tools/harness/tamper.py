"""
Somebody changes a log on purpose: the nine edits of the agent-memory-integrity suite
(T1 to T9), and rewriting its end to the same length.

The editor knows the format: every frame has a right checksum.  Records are edited, the
chain is not, except by the two rewrites at the end, which compute everything anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs
import msgpack

from jumar.engine.log.assembly import Assembly, Begin
from jumar.engine.log.frame import frame, scan
from jumar.engine.log.merkle import Tree
from jumar.engine.log.record import Entry, decode
from jumar.engine.log.segment import read_footer, read_header
from jumar.tools.harness.disk import SimDisk

Files = dict[str, bytes]
"""The files of a run directory by path."""

Bodies = list[bytes]


def files_of(disk: SimDisk, root: str, below: str = "") -> Files:
    """Every file of a run directory."""
    found: Files = {}
    for name in disk.listdir(f"{root}/{below}"):
        stat = disk.stat(f"{root}/{below}{name}")
        if stat is not None and stat.kind == "dir":
            found |= files_of(disk, root, f"{below}{name}/")
        elif stat is not None and stat.kind == "file":
            found[f"{below}{name}"] = disk.read(f"{root}/{below}{name}")
    return found


def disk_of(files: Files, root: str) -> SimDisk:
    """A disk that holds these files."""
    disk = SimDisk()
    for path, data in files.items():
        folder, _, name = path.rpartition("/")
        disk.foreign_tree(f"{root}/{folder}", {name: data})
    return disk


@attrs.frozen
class Edit:
    """One way to tamper; `earlier` and `other` are a copy of before and another run's."""

    name: str
    make: Callable[[Files, Files, Files], Files]


def last_segment(files: Files) -> str:
    """The newest one."""
    return max(name for name in files if name.startswith(".jumar/seg/"))


def edited(change: Callable[[Bodies, Bodies], Bodies]) -> Callable[..., Files]:
    """An edit of the records of the last segment; header and footer stay as they are."""

    def make(files: Files, earlier: Files, other: Files) -> Files:
        name = last_segment(files)
        head, bodies, foot = _apart(files[name])
        _, foreign, _ = _apart(other[last_segment(other)])
        data = head + b"".join(map(frame, change(bodies, foreign))) + foot
        return {**files, name: data}

    return make


def _apart(data: bytes) -> tuple[bytes, Bodies, bytes]:
    """(header, bodies of records, footer) of a segment."""
    found = read_header(data)
    assert found is not None
    bodies = scan(data, found[1]).bodies
    foot = bodies.pop() if read_footer(bodies[-1]) else b""
    return data[: found[1]], bodies, frame(foot) if foot else b""


def _field(body: bytes, index: int, value: object) -> bytes:
    fields = msgpack.unpackb(body)
    fields[index] = value
    packed: bytes = msgpack.packb(fields)
    return packed


def content(bodies: Bodies, other: Bodies) -> Bodies:
    """Another payload in one record."""
    return [*bodies[:3], _field(bodies[3], 11, {"changed": 1}), *bodies[4:]]


def metadata(bodies: Bodies, other: Bodies) -> Bodies:
    """Another time in one record."""
    return [*bodies[:3], _field(bodies[3], 4, 1), *bodies[4:]]


def middle_gone(bodies: Bodies, other: Bodies) -> Bodies:
    """One record less."""
    return [*bodies[:3], *bodies[4:]]


def reordered(bodies: Bodies, other: Bodies) -> Bodies:
    """Two records changed places."""
    return [*bodies[:3], bodies[4], bodies[3], *bodies[5:]]


def inserted(bodies: Bodies, other: Bodies) -> Bodies:
    """A record that nobody wrote, with the number of the one it pushes back."""
    return [*bodies[:3], _field(bodies[3], 11, {"new": 1}), *bodies[3:]]


def of_another_run(bodies: Bodies, other: Bodies) -> Bodies:
    """A record of another run in the place of one."""
    return [*bodies[:3], other[3], *bodies[4:]]


def replayed(bodies: Bodies, other: Bodies) -> Bodies:
    """A record a second time."""
    return [*bodies, bodies[3]]


def cut(files: Files, earlier: Files, other: Files) -> Files:
    """The last records and the footer are gone, and the mark of a clean close with them."""
    name = last_segment(files)
    head, bodies, _ = _apart(files[name])
    left = {key: data for key, data in files.items() if not key.endswith(".released")}
    return {**left, name: head + b"".join(map(frame, bodies[:-3]))}


def rolled_back(files: Files, earlier: Files, other: Files) -> Files:
    """The whole directory as it was before."""
    return earlier


def rewritten(files: Files, earlier: Files, other: Files) -> Files:
    """Another time at the end, just as long, chain and footer as the writer would."""
    name = last_segment(files)
    data = files[name]
    found = read_header(data)
    assert found is not None
    header = found[0]
    bodies = _apart(data)[1]
    plan = Assembly(
        header.log_id, header.epoch, header.writer, header.first_seq,
        bytes.fromhex(header.prev), Tree(header.first_seq, list(header.peaks or [])),
    )  # fmt: skip
    plan.begin(header.pred)
    for n, body in enumerate(bodies):
        record = decode(body)
        if record.back == 0:
            plan._batch = record.seq
        entry = Entry(record.type, record.v, record.payload, record.cause, record.op_id)
        later = int(n == len(bodies) - 1)
        plan.add([entry], record.wall_ns + later, record.mono_ns)
    plan.seal()
    made = [piece.header if isinstance(piece, Begin) else piece for piece in plan.pieces]
    return {**files, name: b"".join(made)}


def without_heads(edit: Callable[..., Files]) -> Callable[..., Files]:
    """The same, and the heads beside the log are gone."""

    def make(files: Files, earlier: Files, other: Files) -> Files:
        done: Files = edit(files, earlier, other)
        return {
            key: data for key, data in done.items() if not key.startswith(".jumar/heads/")
        }

    return make


EDITS: Final = (
    Edit("T1 content of a record", edited(content)),
    Edit("T2 end cut off", cut),
    Edit("T2 end cut off, heads removed", without_heads(cut)),
    Edit("T3 record removed from the middle", edited(middle_gone)),
    Edit("T4 two records reordered", edited(reordered)),
    Edit("T5 record inserted", edited(inserted)),
    Edit("T6 record of another run", edited(of_another_run)),
    Edit("T7 record replayed", edited(replayed)),
    Edit("T8 metadata of a record", edited(metadata)),
    Edit("end rewritten, just as long", rewritten),
    Edit("end rewritten, heads removed", without_heads(rewritten)),
    Edit("T9 whole directory rolled back", rolled_back),
)
