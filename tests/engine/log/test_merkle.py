"""RFC 6962 trees: the published vectors, and every proof of every small tree."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.engine.log import merkle

LEAVES = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657",
          "606162636465666768696a6b6c6d6e6f"]  # fmt: skip
"""The inputs of the reference implementation of Certificate Transparency."""
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
A = "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7"
B = "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e"
C = "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4"
D = "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b"
E = "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0"
F = "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a"
INCLUSION = {
    (0, 8): [A, B, C],
    (5, 8): [D, E, ROOTS[3]],
    (2, 3): [ROOTS[1]],
    (1, 5): [ROOTS[0], B, D],
}
CONSISTENCY = {(1, 8): [A, B, C], (6, 8): [F, E, ROOTS[3]], (2, 5): [B, D], (1, 1): []}


def leaves(n: int) -> list[bytes]:
    return [merkle.leaf_hash(bytes.fromhex(one)) for one in LEAVES[:n]]


def test_the_roots_are_those_that_are_published() -> None:
    tree = merkle.Tree()
    assert tree.root() == hashlib.sha256(b"").digest()
    for n, root in enumerate(ROOTS, start=1):
        tree.add(bytes.fromhex(LEAVES[n - 1]))
        assert (tree.size, tree.root().hex()) == (n, root)
        assert merkle.root_of(leaves(n)).hex() == root


@pytest.mark.parametrize("case", INCLUSION, ids=str)
def test_the_inclusion_proofs_are_those_that_are_published(case: tuple[int, int]) -> None:
    index, size = case
    proof = merkle.inclusion(leaves(size), index)
    assert INCLUSION[case] == [node.hex() for node in proof]


@pytest.mark.parametrize("case", CONSISTENCY, ids=str)
def test_the_consistency_proofs_are_those_that_are_published(case: tuple[int, int]) -> None:
    old, size = case
    proof = merkle.consistency(leaves(size), old)
    assert CONSISTENCY[case] == [node.hex() for node in proof]


BODIES = [bytes([n]) for n in range(24)]
HASHES = [merkle.leaf_hash(body) for body in BODIES]


def test_every_leaf_of_every_small_tree_is_proved_and_nothing_else() -> None:
    for size in range(1, len(BODIES) + 1):
        tree, root = HASHES[:size], merkle.root_of(HASHES[:size])
        for index in range(size):
            proof = merkle.inclusion(tree, index)
            assert merkle.proves_inclusion(HASHES[index], index, size, proof, root)
            for case in (
                (HASHES[index], index + 1, size, proof, root),
                (HASHES[index], index, size, [*proof, root], root),
                (HASHES[index], index, size, proof, b"another root"),
                (b"another leaf", index, size, proof, root),
            ):
                assert not merkle.proves_inclusion(*case), case
            if proof:
                short = proof[:-1]
                assert not merkle.proves_inclusion(HASHES[index], index, size, short, root)


def test_every_pair_of_small_trees_is_proved_and_nothing_else() -> None:
    roots = [merkle.root_of(HASHES[:n]) for n in range(len(HASHES) + 1)]
    for size in range(1, len(HASHES) + 1):
        for old in range(1, size + 1):
            proof = merkle.consistency(HASHES[:size], old)
            assert merkle.proves_consistency(old, roots[old], size, roots[size], proof)
            assert not merkle.proves_consistency(
                old, roots[old - 1], size, roots[size], proof
            )
            assert not merkle.proves_consistency(
                old, roots[old], size, roots[size - 1], proof
            )
            longer = [*proof, roots[0]]
            assert not merkle.proves_consistency(old, roots[old], size, roots[size], longer)


@given(st.lists(st.binary(max_size=40), max_size=70))
@settings(max_examples=60, derandomize=True, deadline=None)
def test_the_growing_tree_is_the_tree_of_the_recursion(bodies: list[bytes]) -> None:
    tree = merkle.Tree()
    for body in bodies:
        tree.add(body)
    assert tree.root() == merkle.root_of([merkle.leaf_hash(body) for body in bodies])
    assert len(tree.peaks) == bin(len(bodies)).count("1")


@pytest.mark.parametrize("index", [-1, 3])
def test_there_is_no_proof_of_a_leaf_that_is_not_there(index: int) -> None:
    with pytest.raises(ValueError, match="of 3"):
        merkle.inclusion(HASHES[:3], index)
    assert not merkle.proves_inclusion(HASHES[0], index, 3, [], HASHES[0])
    with pytest.raises(ValueError, match="of 3"):
        merkle.consistency(HASHES[:3], 4 if index == 3 else 0)
