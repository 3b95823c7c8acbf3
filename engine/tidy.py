"""
After a commit, off everybody else's path: pointer, then prune.  Never fails a save.

Prune order: `prune.started` durable, one rename out of sight, an fsync of the parent,
then the deletion; so no half-pruned item ever looks complete.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from jumar.engine.ledger import Ledger
from jumar.engine.recover import pointed
from jumar.engine.session import Session
from jumar.reducers import events as ev
from jumar.reducers import retention
from jumar.reducers.checkpoints import latest
from jumar.reducers.errors import JumarError
from jumar.reducers.state import Ckpt

logger = structlog.get_logger("jumar")


def tidy(run: Session, ckpt_ids: Sequence[str]) -> None:
    """Publish and prune after these commits; what fails is logged and tried again later."""
    assert run.ledger is not None
    try:
        for moved in run.publisher.take_moved():
            run.ledger.note(_foreign(moved))
        for ckpt_id in ckpt_ids:
            ckpt = run.state.ckpts[ckpt_id]
            _publish(run, run.ledger, ckpt.family)
            _quarantine(run, run.ledger, ckpt.family)
        _prune(run, run.ledger, [run.state.ckpts[ckpt_id] for ckpt_id in ckpt_ids])
    except (JumarError, OSError) as error:
        # The commit stands.  A dead log is found by the next call on this run, which
        # raises; anything else is tried again after the next commit.
        logger.error("tidying after a commit failed", why=str(error))


def _foreign(moved: tuple[str, str]) -> ev.CkptObserved:
    was, now = (path.rpartition("/")[2] for path in moved)
    detail = f"a foreign entry stood in the way and was moved aside to {now}"
    return ev.CkptObserved(ckpt_id=None, name=was, finding="foreign", detail=detail)


def _publish(run: Session, ledger: Ledger, family: str) -> None:
    newest = latest(run.state, family)
    assert newest is not None  # it was just committed
    try:
        run.act("publish")
        if run.publisher.point(newest, ledger.epoch):
            ledger.note(pointed(newest))
    except OSError as error:
        logger.warning("the pointer was not moved", family=family, why=str(error))


def _quarantine(run: Session, ledger: Ledger, family: str) -> None:
    for ckpt in retention.to_quarantine(run.state, family):
        try:
            ledger.writer.must_lead()
            aside = run.publisher.quarantine(ckpt)
        except OSError as error:
            logger.warning("not quarantined", ckpt=ckpt.ckpt_id, why=str(error))
            continue
        if aside is not None:
            to = aside.removeprefix(run.layout.root + "/")
            ledger.note(ev.CkptMoved(ckpt_id=ckpt.ckpt_id, to=to))


def _prune(run: Session, ledger: Ledger, committed: Sequence[Ckpt]) -> None:
    old = [ckpt for ckpt in run.state.ckpts.values() if ckpt.status == "pruning"]
    now_ns = max(ckpt.clock_ns for ckpt in committed)
    plans = [retention.plan(run.state, ckpt, now_ns) for ckpt in committed]
    planned = [plan for plan in plans if plan is not None]
    victims = [(run.state.ckpts[v.ckpt_id], p.because) for p in planned for v in p.victims]
    ledger.note(*planned)
    hidden = [ckpt for ckpt in old if _hide(run, ledger, ckpt)]
    hidden += _start(run, ledger, victims)
    for ckpt in hidden:
        _delete(run, ledger, ckpt)


def _start(run: Session, ledger: Ledger, victims: Sequence[tuple[Ckpt, str]]) -> list[Ckpt]:
    try:
        run.act("prune")
    except OSError as error:
        for ckpt, _ in victims:
            ledger.note(_failed(ckpt, True, error))
        return []
    ledger.note(
        *(
            ev.PruneStarted(ckpt_id=ckpt.ckpt_id, because=because)
            for ckpt, because in victims
        )
    )
    return [ckpt for ckpt, _ in victims if _hide(run, ledger, ckpt)]


def _hide(run: Session, ledger: Ledger, ckpt: Ckpt) -> bool:
    try:
        ledger.writer.must_lead()  # whoever took over may have called it back
        hidden = run.publisher.hide(ckpt)
    except OSError as error:
        ledger.note(_failed(ckpt, True, error))
        return False
    if not hidden:
        ledger.note(ev.PruneDone(ckpt_id=ckpt.ckpt_id, already_gone=True))
    return hidden


def _delete(run: Session, ledger: Ledger, ckpt: Ckpt) -> None:
    try:
        run.act("unlink")
        run.publisher.delete(ckpt)
    except OSError as error:
        ledger.note(_failed(ckpt, False, error))
        return
    ledger.note(ev.PruneDone(ckpt_id=ckpt.ckpt_id, already_gone=False))


def _failed(ckpt: Ckpt, whole: bool, error: OSError) -> ev.PruneFailed:
    logger.warning(
        "a prune failed and will be tried again", ckpt=ckpt.ckpt_id, why=str(error)
    )
    return ev.PruneFailed(ckpt_id=ckpt.ckpt_id, whole=whole, error=str(error)[:4096])
