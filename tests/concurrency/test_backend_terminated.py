"""P1 and P2: a backend is terminated, or its call cancelled, at every step of a call of every kind.

Steps are found, not listed: a clean call tells, by its locks, which tables it looks into, locks rows of or writes; the
catalogue and the rows tell which it has written. At each of them a lock or a trigger stops the call.
"""

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
import pytest
from calls import KINDS, Kind, OwnRows, assert_once, clean_effect, contents, effect, run
from harness import Tenant, connect, scaled, wait_until, waiting

GATE = random.getrandbits(62)
# What a call's lock of this mode is for, and the lock that stops the call there.
STOPPING = {
    "AccessShareLock": ("reads", "ACCESS EXCLUSIVE"),
    "RowShareLock": ("locks rows of", "EXCLUSIVE"),
    "RowExclusiveLock": ("writes", "SHARE"),
}
TRIGGERS = {
    "before a row of": "TRIGGER stop BEFORE INSERT OR UPDATE OR DELETE ON {} FOR EACH ROW",
    "after the rows of": "TRIGGER stop AFTER INSERT OR UPDATE OR DELETE ON {} FOR EACH ROW",
    "in COMMIT, for": "CONSTRAINT TRIGGER stop AFTER INSERT OR UPDATE OR DELETE ON {}"
    " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW",
}


@dataclass(frozen=True)
class Step:
    """Where the call waits while another session has done `hold`; the trigger is there for as long as the step."""

    name: str
    table: str
    hold: str
    trigger: str | None = None

    @contextmanager
    def closed(self, db):
        if self.trigger:
            db.execute(f"CREATE {self.trigger} EXECUTE FUNCTION stop_at_the_gate({GATE})")
        try:
            with connect() as holder, holder.transaction(force_rollback=True):
                holder.execute(self.hold)
                yield
        finally:
            if self.trigger:
                db.execute(f"DROP TRIGGER stop ON payment_idem.{self.table}")


@pytest.fixture
def tenant(db, tenants_of_module) -> Tenant:
    tenants_of_module.append(Tenant(db))
    return tenants_of_module[-1]


@pytest.fixture(scope="module", autouse=True)
def gate(db):
    db.execute(
        """
        CREATE FUNCTION stop_at_the_gate() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            PERFORM pg_advisory_xact_lock_shared(TG_ARGV[0]::bigint);
            RETURN coalesce(NEW, OLD);
        END $$
        """
    )
    yield
    db.execute("DROP FUNCTION stop_at_the_gate()")


def locks_of(call) -> list[dict]:
    """The locks that the call holds at its end on tables and sequences of the extension, in a session that is new."""
    with connect() as session, session.transaction(force_rollback=True):
        run(session, call)
        return session.execute(
            """
            SELECT relname, relkind = 'S' AS is_sequence, array_agg(mode) AS modes
            FROM pg_locks JOIN pg_class ON pg_class.oid = relation
            WHERE pid = pg_backend_pid() AND relnamespace = 'payment_idem'::regnamespace
              AND relkind IN ('r', 'p', 'S') AND NOT relispartition
            GROUP BY relname, relkind
            """
        ).fetchall()


def steps(locks: list[dict], written: dict) -> list[Step]:
    found = []
    for lock in locks:
        table = lock["relname"]
        if lock["is_sequence"]:
            hold = f"ALTER SEQUENCE payment_idem.{table} CACHE 1"
            found.append(Step(f"takes a number of {table}", table, hold))
            continue
        for use, mode in dict.fromkeys([STOPPING["AccessShareLock"], *(STOPPING[mode] for mode in lock["modes"])]):
            found.append(Step(f"{use} {table}", table, f"LOCK TABLE payment_idem.{table} IN {mode} MODE"))
    assert set(written) <= {step.table for step in found}
    for table in written:
        for when, trigger in TRIGGERS.items():
            hold = f"SELECT pg_advisory_xact_lock({GATE})"
            found.append(Step(f"{when} {table}", table, hold, trigger.format(f"payment_idem.{table}")))
    return found


# Each with the SQLSTATEs that the caller may see (None is a connection that is gone without a word), and at which
# steps it is tried: every one, or where time is short every third.
ENDINGS = {
    "terminated": ("SELECT pg_terminate_backend($1) AS done", {"57P01", None}, 1),
    "cancelled": ("SELECT pg_cancel_backend($1) AS done", {"57014"}, scaled(short=3, full=1)),
}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_broken_off_at_every_step(db, tenant, kind: Kind, ending):
    """The tables know nothing of the call, and its repetition is the first one: after a cancel in the same session."""
    call = kind.prepare(tenant)
    locks = locks_of(call)
    expected = clean_effect(db, tenant, kind, call)
    end, sqlstates, every = ENDINGS[ending]
    with ThreadPoolExecutor(1) as pool:
        for step in steps(locks, expected)[::every]:
            call = kind.prepare(tenant)
            before = contents(db, tenant)
            with connect() as victim:
                with step.closed(db):
                    future = pool.submit(run, victim, call)
                    wait_until(lambda: future.done() or waiting(db, [victim]), step.name)
                    assert not future.done(), f"nothing stopped the call: {step}"
                    assert run(db, (end, [victim.info.backend_pid])) == [{"done": True}]
                    with pytest.raises(psycopg.Error) as broken:
                        future.result()
                assert broken.value.sqlstate in sqlstates, step
                assert victim.closed == (ending == "terminated"), step
                assert effect(before, contents(db, tenant)) == {}, step
                kind.assert_answer(run(db if victim.closed else victim, call))
                assert_once(db, tenant, kind, call, before, expected)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_terminated_between_the_answer_and_commit(db, tenant, kind: Kind):
    """An answer is not yet a commit: the caller's own row and all that the call did vanish together."""
    call = kind.prepare(tenant)
    before = contents(db, tenant)
    with OwnRows(db) as own, connect() as victim:
        run(victim, ("BEGIN", []))
        own.add(victim)
        kind.assert_answer(run(victim, call))
        assert run(db, (ENDINGS["terminated"][0], [victim.info.backend_pid])) == [{"done": True}]
        with pytest.raises(psycopg.OperationalError) as lost:
            run(victim, ("COMMIT", []))
        assert lost.value.sqlstate in ENDINGS["terminated"][1]
        assert own.count() == 0
    assert effect(before, contents(db, tenant)) == {}
    kind.assert_answer(run(db, call))
    assert_once(db, tenant, kind, call, before, effect(before, contents(db, tenant)))
