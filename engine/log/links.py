"""Which segments of a log count, and in which order."""

from __future__ import annotations

from typing import Literal

import attrs

from jumar.engine.disk import Disk
from jumar.engine.log.identity import Identity
from jumar.engine.log.segment import Header, epoch_of, is_segment, read_header


@attrs.frozen
class Finding:
    """Something about the bytes that a reader should know."""

    segment: str
    offset: int
    what: str
    severity: Literal["error", "warning"] = "error"


@attrs.frozen
class Link:
    """One segment of the chain; `limit` is what its successor counted valid."""

    name: str
    header: Header
    first: int
    limit: int | None


def links(disk: Disk, root: str, identity: Identity) -> tuple[list[Link], list[Finding]]:
    """
    The segments that count, oldest first, and findings about those that do not.

    The newest epoch whose ancestry reaches the beginning wins; a segment whose header is
    torn (a writer that died while it began) hides nobody.
    """
    headers: dict[str, tuple[Header, int]] = {}
    findings = []
    folder = f"{root}/seg"
    names = disk.listdir(folder) if disk.stat(folder) is not None else []
    for name in filter(is_segment, names):
        found = read_header(disk.read(f"{folder}/{name}", 0, 65536))
        if found is None or not _belongs(found[0], name, identity):
            what = "orphan segment: its header is torn, or of another log or name"
            findings.append(Finding(name, 0, what, "warning"))
        else:
            headers[name] = found
    for tip in sorted(headers, key=epoch_of, reverse=True):
        chain = _ancestry(tip, headers, identity)
        if chain is not None:
            used = {link.name for link in chain}
            findings += [
                Finding(name, 0, "segment is not on the chain", "warning")
                for name in sorted(headers.keys() - used)
            ]
            return chain, findings
    if headers:
        findings.append(Finding(max(headers), 0, "no segment leads back to the beginning"))
    return [], findings


def _belongs(header: Header, name: str, identity: Identity) -> bool:
    """A segment of another log, or a copy under another name, must not hide ours."""
    here = (header.epoch, header.first_seq) == epoch_of(name)
    return here and header.log_id == identity.log_id


def _ancestry(
    tip: str, headers: dict[str, tuple[Header, int]], identity: Identity
) -> list[Link] | None:
    chain: list[Link] = []
    name, limit = tip, None
    while name in headers:
        header, first = headers[name]
        chain.append(Link(name, header, first, limit))
        if header.pred is None:
            is_first = header.first_seq == 0 and header.prev == identity.digest.hex()
            return chain[::-1] if is_first else None
        if epoch_of(header.pred.name) >= epoch_of(name):
            return None  # a header that names its own future
        name, limit = header.pred.name, header.pred.valid_bytes
    return None
