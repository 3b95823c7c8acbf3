"""
The Merkle tree over the records of a log, as RFC 6962 section 2.1 defines it.

    leaf = SHA-256(0x00 || body)      node = SHA-256(0x01 || left || right)

Its root commits to every record at once, and unlike the hash of the last record it lets
one record be shown (`inclusion`), or a log be shown to have only grown (`consistency`),
without the other records.  A writer keeps the peaks alone: one hash for each bit that is
set in the size, largest subtree first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import attrs

_sha256 = hashlib.sha256


def leaf_hash(body: bytes) -> bytes:
    """Of one record's stored bytes."""
    return _sha256(b"\0" + body).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Of two subtrees."""
    return _sha256(b"\1" + left + right).digest()


def fold_peaks(peaks: Sequence[bytes]) -> bytes:
    """The root of the tree with these peaks; of no peak: the hash of nothing."""
    *higher, root = peaks or (_sha256().digest(),)
    for peak in reversed(higher):
        root = node_hash(peak, root)
    return root


@attrs.define
class Tree:
    """A growing tree: its size in leaves, and its peaks, largest subtree first."""

    size: int = 0
    peaks: list[bytes] = attrs.field(factory=list)

    def add(self, body: bytes) -> None:
        """Append one record's body."""
        node, size = leaf_hash(body), self.size
        while size & 1:
            node = node_hash(self.peaks.pop(), node)
            size >>= 1
        self.peaks.append(node)
        self.size += 1

    def root(self) -> bytes:
        """32 bytes."""
        return fold_peaks(self.peaks)


def root_of(leaves: Sequence[bytes]) -> bytes:
    """The root over leaf hashes, by the recursion of the RFC."""
    if len(leaves) < 2:
        return leaves[0] if leaves else _sha256().digest()
    k = _split(len(leaves))
    return node_hash(root_of(leaves[:k]), root_of(leaves[k:]))


def inclusion(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """
    The audit path of a leaf, lowest sibling first (RFC 6962 section 2.1.1).

    Raises:
        ValueError: there is no such leaf.
    """
    if not 0 <= index < len(leaves):
        raise ValueError(f"leaf {index} of {len(leaves)}")
    if len(leaves) == 1:
        return []
    k = _split(len(leaves))
    if index < k:
        return [*inclusion(leaves[:k], index), root_of(leaves[k:])]
    return [*inclusion(leaves[k:], index - k), root_of(leaves[:k])]


def consistency(leaves: Sequence[bytes], size: int) -> list[bytes]:
    """
    What shows that the tree over all leaves begins with that over the first `size`.

    Raises:
        ValueError: `size` is not in 1 .. the number of leaves (RFC 6962 section 2.1.2).
    """
    if not 1 <= size <= len(leaves):
        raise ValueError(f"size {size} of {len(leaves)}")
    return _subproof(leaves, size, True)


def _subproof(leaves: Sequence[bytes], size: int, whole: bool) -> list[bytes]:
    if size == len(leaves):
        return [] if whole else [root_of(leaves)]
    k = _split(len(leaves))
    if size <= k:
        return [*_subproof(leaves[:k], size, whole), root_of(leaves[k:])]
    return [*_subproof(leaves[k:], size - k, False), root_of(leaves[:k])]


def _split(size: int) -> int:
    """The largest power of two below `size`."""
    return 1 << ((size - 1).bit_length() - 1)


def proves_inclusion(
    leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes
) -> bool:
    """Whether a leaf hash stands at `index` of the tree of `size` with this root."""
    if not 0 <= index < size:
        return False
    place, last, node = index, size - 1, leaf
    for sibling in proof:
        if last == 0:
            return False  # a longer path than the tree is high
        if place & 1 or place == last:
            node = node_hash(sibling, node)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            node = node_hash(node, sibling)
        place, last = place >> 1, last >> 1
    return last == 0 and node == root


def proves_consistency(
    old: int, old_root: bytes, size: int, root: bytes, proof: Sequence[bytes]
) -> bool:
    """Whether the tree of `size` begins with that of `old` leaves (RFC 9162, 2.1.4.2)."""
    if not 0 < old <= size:
        return old == 0 and not proof
    if old == size:
        return not proof and old_root == root
    path = [old_root, *proof] if old & (old - 1) == 0 else list(proof)
    if not path:
        return False
    place, last = old - 1, size - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    first = second = path[0]
    for node in path[1:]:
        if last == 0:
            return False
        if place & 1 or place == last:
            first, second = node_hash(node, first), node_hash(node, second)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            second = node_hash(second, node)
        place, last = place >> 1, last >> 1
    return last == 0 and first == old_root and second == root
