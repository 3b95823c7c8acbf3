"""
Heads: what the log was at a moment, in the checkpoint form of C2SP tlog-checkpoint.

    jumar.log/<log id>
    <records>
    <Merkle root, base64>

A signed one goes on, after an empty line, with lines `— <key name> <base64>`.

`heads/` is also the fence of a file system whose clients may see old names: names are
ordinals, `000000000000.head` on, made by exclusive create, which a server decides.  A
successor makes the next one before it relies on what it read, and a writer makes the next
one before it acknowledges a barrier: whoever finds the name taken was too late.  Nothing
syncs a head; as evidence it may be missing, and one that is not whole says nothing.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import re
from typing import Final

import attrs

from jumar.engine.disk import Disk
from jumar.engine.log.record import Head

ORIGIN: Final = "jumar.log"
SIZE_MAX: Final = 16_384
_NAME: Final = re.compile(r"([0-9]{12})\.head", re.ASCII)
_SIGNATURE: Final = re.compile(r"— (\S{1,255}) ([A-Za-z0-9+/]+={0,2})")


@attrs.frozen
class Told:
    """
    What a head says.

    Attributes:
        log_id: which log.
        size: records.
        root: Merkle root over them, hex.
        signers: names of the keys of its signature lines; not checked here.
    """

    log_id: str
    size: int
    root: str
    signers: tuple[str, ...] = ()


def text_of(log_id: str, head: Head) -> bytes:
    """The text of a head, which is also what a signature is over."""
    root = base64.b64encode(bytes.fromhex(head.root)).decode()
    return f"{ORIGIN}/{log_id}\n{head.size}\n{root}\n".encode()


def read_text(data: bytes) -> Told | None:
    """What a head says; None when it is not whole or not of this form."""
    with contextlib.suppress(ValueError, binascii.Error):
        text, _, signatures = data.decode().partition("\n\n")
        origin, size, root, *rest = (text + "\n" * bool(signatures)).split("\n")
        kind, _, log_id = origin.partition("/")
        raw = base64.b64decode(root, validate=True)
        signers = [_SIGNATURE.fullmatch(line) for line in signatures.split("\n")[:-1]]
        plain = re.fullmatch(r"0|[1-9][0-9]{0,18}", size, re.ASCII)
        whole = data.endswith(b"\n") and rest == [""] and len(raw) == 32
        if kind == ORIGIN and log_id and plain and whole and all(signers):
            return Told(log_id, int(size), raw.hex(), tuple(s[1] for s in signers if s))
    return None


def ordinals(disk: Disk, root: str) -> list[int]:
    """The heads beside the log, as this client sees them, ascending."""
    names = map(_NAME.fullmatch, disk.listdir(f"{root}/heads"))
    return [int(found[1]) for found in names if found]


def path_of(root: str, ordinal: int) -> str:
    """`heads/NNNNNNNNNNNN.head`."""
    return f"{root}/heads/{ordinal:012d}.head"


def publish(disk: Disk, root: str, ordinal: int, text: bytes) -> None:
    """Make this head; FileExistsError when somebody was first."""
    file = disk.create(path_of(root, ordinal))
    try:
        file.write(text)
    finally:
        file.close()


def read(disk: Disk, root: str, ordinal: int) -> Told | None:
    """One head beside the log; None when it says nothing."""
    with contextlib.suppress(OSError):
        return read_text(disk.read(path_of(root, ordinal), 0, SIZE_MAX))
    return None
