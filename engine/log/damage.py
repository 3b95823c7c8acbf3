"""What odd bytes mean: a torn tail, or damage of what was acknowledged."""

from __future__ import annotations

import hashlib

from jumar.engine.errors import LogDamaged
from jumar.engine.log.frame import frames_behind
from jumar.engine.log.links import Finding
from jumar.engine.log.record import BadRecord, decode


def acknowledged_behind(data: bytes, at: int, size: int, epoch: int) -> int | None:
    """
    The offset of a frame that proves the damaged bytes were acknowledged, or None.

    Only the last batch may be torn, in any of its pages; damage that begins before
    the last batch does is damage of bytes that a sync had made durable.

    Args:
        at: where the damage begins.
        size: records in the log before it.
        epoch: of the segment; a payload may hold a frame of some other log.
    """
    for offset, body in frames_behind(data, at):
        try:
            record = decode(body)
        except BadRecord:
            continue
        if record.epoch == epoch and record.seq - record.back > size:
            return offset
    return None


def sha256_of(data: bytes, end: int) -> str:
    """Of the first bytes, hex."""
    return hashlib.sha256(memoryview(data)[:end]).hexdigest()


def damaged(finding: Finding) -> LogDamaged:
    """The error of a finding."""
    return LogDamaged(
        "the log is damaged",
        why=f"{finding.segment} at byte {finding.offset}: {finding.what}",
        instead=finding.instead,
        value=finding.segment,
    )
