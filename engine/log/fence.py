"""Whether a writer still leads: nobody claimed a later epoch, nor made the next head."""

from __future__ import annotations

import attrs

from jumar.engine.disk import Disk
from jumar.engine.log import claims, heads
from jumar.engine.log.record import Head


@attrs.define
class Fence:
    """
    One writer's look at whoever may come after it.

    Attributes:
        network: names on this file system may be old, so a look alone proves nothing: a
            head is made each time, which the server decides.
        next_head: ordinal of the head that this writer makes next.
    """

    disk: Disk
    root: str
    log_id: str
    epoch: int
    network: bool
    next_head: int
    _later: str = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._later = claims.path_of(self.root, self.epoch + 1)

    def holds(self, head: Head, *, witness: bool = False) -> bool:
        """
        Whether nobody took over.

        Args:
            head: what is durable, for the head that is made.
            witness: make one also where a look is enough, as evidence.
        """
        if self.is_passed():
            return False
        if witness or self.network:
            text = heads.text_of(self.log_id, head)
            mine, self.next_head = self.next_head, self.next_head + 1
            try:  # the number is used up whatever happens: nobody meets his own head
                heads.publish(self.disk, self.root, mine, text)
            except FileExistsError:
                return False
        return True

    def is_passed(self) -> bool:
        """Whether a later claim is seen."""
        return self.disk.stat(self._later) is not None

    def successor(self) -> str:
        """Who took over, in words."""
        claim = claims.read_claim(self.disk, self.root, self.epoch + 1)
        who = f"process {claim.pid} on {claim.host}" if claim else "another process"
        return f"{who} took over with epoch {self.epoch + 1}"
