"""P2 and P3: a trigger that raises in each table in turn. The caller gets its error unchanged, and nothing is left."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from calls import KINDS, Kind, OwnRows, assert_once, clean_effect, contents, effect, new, run, tables
from harness import Tenant, connect, wait_until, waiting

BREAK = "break_off"
AT_ONCE = {
    "before": "TRIGGER {} BEFORE {} ON payment_idem.{} FOR EACH ROW",
    "after": "TRIGGER {} AFTER {} ON payment_idem.{} FOR EACH ROW",
}
AT_COMMIT = "CONSTRAINT TRIGGER {} AFTER {} ON payment_idem.{} DEFERRABLE INITIALLY DEFERRED FOR EACH ROW"
TIMINGS = AT_ONCE | {"at commit": AT_COMMIT}

kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


@pytest.fixture
def tenant(db, tenants_of_module) -> Tenant:
    tenants_of_module.append(Tenant(db))
    return tenants_of_module[-1]


@pytest.fixture(autouse=True)
def raising(db):
    """The function that the triggers run; its argument is the SQLSTATE. With it go triggers that a failed test left."""
    db.execute(
        f"""
        CREATE FUNCTION {BREAK}() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            RAISE EXCEPTION USING ERRCODE = TG_ARGV[0], MESSAGE = 'not in ' || TG_TABLE_NAME, DETAIL = 'A detail.',
                HINT = 'A hint.', CONSTRAINT = 'a_constraint';
        END $$
        """
    )
    yield
    db.execute(f"DROP FUNCTION {BREAK}() CASCADE")


def create(db, trigger: str, table: str, events: str = "INSERT OR UPDATE OR DELETE", sqlstate: str = "PX001"):
    db.execute(f"CREATE {trigger.format(BREAK, events, table)} EXECUTE FUNCTION {BREAK}('{sqlstate}')")


def drop(db, table: str):
    db.execute(f"DROP TRIGGER {BREAK} ON payment_idem.{table}")


@contextmanager
def broken_by(trigger: str, table: str, sqlstate: str = "PX001"):
    """What runs in the block is ended by the trigger, and by what it says."""
    with pytest.raises(psycopg.Error) as raised:
        yield
    told = raised.value.diag
    assert (told.sqlstate, told.message_detail, told.message_hint, told.constraint_name) == (
        sqlstate,
        "A detail.",
        "A hint.",
        "a_constraint",
    ), f"{trigger.format(BREAK, '...', table)}: {raised.value}"
    assert told.message_primary.startswith(f"not in {table}")  # of a partition, its name


@kinds
@pytest.mark.parametrize("timing", TIMINGS)
def test_raises_in_each_table_in_turn(db, tenant, kind: Kind, timing):
    """Autocommit: the session goes on, and once the trigger is gone the same call is the first one."""
    expected = clean_effect(db, tenant, kind)
    with connect() as session:
        for table in expected:
            call = kind.prepare(tenant)
            before = contents(db, tenant)
            create(db, TIMINGS[timing], table)
            with broken_by(TIMINGS[timing], table):
                run(session, call)
            assert effect(before, contents(db, tenant)) == {}, table
            drop(db, table)
            kind.assert_answer(run(session, call))
            assert_once(db, tenant, kind, call, before, expected)


@kinds
def test_other_tables_are_not_written(db, tenant, kind: Kind):
    """With triggers on all the others, the call goes through: no table that it touches was left out above."""
    expected = clean_effect(db, tenant, kind)
    others = [table for table in tables(db) if table not in expected]
    call = kind.prepare(tenant)
    before = contents(db, tenant)
    for table in others:
        create(db, AT_ONCE["before"], table)
    try:
        kind.assert_answer(run(db, call))
    finally:
        for table in others:
            drop(db, table)
    assert_once(db, tenant, kind, call, before, expected)


@kinds
@pytest.mark.parametrize("timing", AT_ONCE)
def test_savepoint_and_retry_in_the_same_transaction(db, tenant, kind: Kind, timing):
    """ROLLBACK TO takes back the call and nothing else; the retry and the caller's own row commit together."""
    expected = clean_effect(db, tenant, kind)
    with OwnRows(db) as own, connect() as session:
        for done, table in enumerate(expected):
            call = kind.prepare(tenant)
            before = contents(db, tenant)
            create(db, AT_ONCE[timing], table)
            run(session, ("BEGIN", []))
            own.add(session)
            run(session, ("SAVEPOINT before_the_call", []))
            with broken_by(AT_ONCE[timing], table):
                run(session, call)
            run(session, ("ROLLBACK TO before_the_call", []))
            assert effect(before, contents(session, tenant)) == {}, table
            drop(session, table)
            kind.assert_answer(run(session, call))
            assert own.count() == done
            run(session, ("COMMIT", []))
            assert own.count() == done + 1
            assert_once(db, tenant, kind, call, before, expected)


@kinds
def test_raises_at_commit_of_the_callers_transaction(db, tenant, kind: Kind):
    """The call has answered, and COMMIT fails: neither the call nor the caller's own row is left."""
    expected = clean_effect(db, tenant, kind)
    with OwnRows(db) as own, connect() as session:
        for table in expected:
            call = kind.prepare(tenant)
            before = contents(db, tenant)
            create(db, AT_COMMIT, table)
            run(session, ("BEGIN", []))
            own.add(session)
            kind.assert_answer(run(session, call))
            with broken_by(AT_COMMIT, table):
                run(session, ("COMMIT", []))
            assert effect(before, contents(db, tenant)) == {}, table
            assert own.count() == 0
            drop(db, table)
            kind.assert_answer(run(session, call))
            assert_once(db, tenant, kind, call, before, expected)


@pytest.mark.parametrize(
    ("table", "events"),
    [("event_receipts", "DELETE"), ("payment_references", "DELETE"), ("exceptions", "INSERT")],
)
def test_raises_while_a_decision_is_corrected(db, tenant, table, events):
    """A rival takes the reference for another order in mid-call: what went in is taken back, and decided again."""
    kind = KINDS["reference_reused"]
    expected = clean_effect(db, tenant, kind)
    theirs, ours, payment = tenant.order(), tenant.order(), new("pi")
    call = ours.paid(payment=payment, utr=new("utr"))
    with connect() as rival, connect() as session, ThreadPoolExecutor(1) as pool:
        create(db, AT_ONCE["after"], table, events)
        run(rival, ("BEGIN", []))
        run(rival, theirs.paid(payment=payment))
        before = contents(rival, tenant)
        future = pool.submit(run, session, call)
        wait_until(lambda: waiting(db, [session]), "the call waits for the rival's reference")
        run(rival, ("COMMIT", []))
        with broken_by(AT_ONCE["after"], table):
            future.result()
        drop(db, table)
        assert effect(before, contents(db, tenant)) == {}
        kind.assert_answer(run(session, call))
    assert_once(db, tenant, kind, call, before, expected)


# Classes that a caller, or we, might be tempted to treat on their own; assert_failure is caught by no OTHERS.
@pytest.mark.parametrize("sqlstate", ["40001", "40P01", "23505", "23503", "57014", "55P03", "22P02", "P0004", "XX000"])
def test_no_sqlstate_is_swallowed_or_changed(db, tenant, sqlstate):
    order = tenant.order()
    call = order.paid()
    untouched = contents(db, tenant)
    create(db, AT_ONCE["after"], "transactions", sqlstate=sqlstate)
    with broken_by(AT_ONCE["after"], "transactions", sqlstate):
        run(db, call)
    drop(db, "transactions")
    assert contents(db, tenant) == untouched
    KINDS["applied"].assert_answer(run(db, call))
