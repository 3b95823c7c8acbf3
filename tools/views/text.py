"""Small forms for people: sizes, digests, times, and text that cannot harm a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime


def bytes_of(size: int) -> str:
    """`3.1 MB`, in powers of ten as disks are sold."""
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def short(digest: str) -> str:
    """The first six characters of a digest."""
    return f"{digest[:6]}…" if digest else "-"


def time_of(wall_ns: int) -> str:
    """UTC, ISO 8601, to the second."""
    return datetime.fromtimestamp(wall_ns / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def clean(text: str) -> str:
    """
    Text from a log or a directory with every character that is not printable escaped.

    Newlines, escape sequences and right-to-left marks in a name must not move the
    reader's cursor or reorder the line.
    """
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def table(rows: Sequence[Sequence[str]], *, gap: int = 2) -> list[str]:
    """Left-aligned columns; nothing when there are no rows."""
    if not rows:
        return []
    cells = [[clean(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    return [
        (" " * gap)
        .join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        .rstrip()
        for row in cells
    ]
