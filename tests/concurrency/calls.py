"""One call of each kind, and what it leaves in the tables: for the tests that break a call off in the middle."""

import json
import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from harness import Tenant, given

INGEST_AT = "SELECT * FROM payment_idem.ingest($1, $2, $3::bytea, $4, $5)"
BATCH = "SELECT * FROM payment_idem.ingest_batch($1, $2::text[], $3::bytea[], $4::text[])"
CREATE_ORDER = (
    "SELECT * FROM payment_idem.create_order($1, 'm1', $2, 10.00, 'USD',"
    " expires_at => '2100-01-01', gateway_order_id => $3, customer_mobile => '+15550100')"
)


def new(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(6)}"


def run(db, call) -> list[dict]:
    sql, parameters = call
    cursor = db.execute(sql, given(parameters))
    return cursor.fetchall() if cursor.description else []


def at_source(source: str, call):
    """The same delivery at another source of the tenant."""
    _, parameters = call
    return INGEST_AT, [*parameters, source]


def in_batch(calls: list):
    """The same deliveries, in one call."""
    tenants, *columns = zip(*(given(parameters) for _, parameters in calls))
    return BATCH, [tenants[0], *map(list, columns)]


def new_source(tenant: Tenant, **options) -> str:
    source = new("source")
    run(
        tenant.db,
        (
            "SELECT payment_idem.create_source($1, $2, 'generic', $3::jsonb), payment_idem.add_secret($1, $2, $4)",
            [tenant.id, source, json.dumps(options), tenant.secret],
        ),
    )
    return source


# --- the calls --------------------------------------------------------------------------------------------------
# Each function sets the stage and returns the call.


def applied(tenant: Tenant):
    return tenant.order().paid(utr=new("utr"), payer_vpa="payer@bank")


def recorded(tenant: Tenant):
    return tenant.order().paid(type="nobody.knows")


def same_payment(tenant: Tenant):
    order, payment = tenant.order(), new("pi")
    run(tenant.db, order.paid(payment=payment))
    return order.paid(payment=payment, utr=new("utr"))


def parked(tenant: Tenant):
    return tenant.event(new("O"), gateway_order_id=new("gw"))


def second_payment(tenant: Tenant):
    order = tenant.order()
    run(tenant.db, order.paid())
    return order.paid()


def reference_reused(tenant: Tenant):
    """The payment has paid another order; the bank's reference is new, and is held."""
    payment = new("pi")
    run(tenant.db, tenant.order().paid(payment=payment))
    return tenant.order().paid(payment=payment, utr=new("utr"))


def superseding(tenant: Tenant):
    """The payment waits in an exception, for another merchant was named; now it is told rightly."""
    order, payment = tenant.order(), new("pi")
    run(tenant.db, order.paid(payment=payment, merchant_id="m2"))
    return order.paid(payment=payment)


def unreadable(tenant: Tenant):
    return tenant.deliver(f'{{"id": "{new("evt")}"'.encode(), None)


def digest_conflict(tenant: Tenant):
    order, event_id = tenant.order(), new("evt")
    run(tenant.db, order.paid(event_id=event_id))
    return order.paid(event_id=event_id)


def event_id_mismatch(tenant: Tenant):
    sql, (tenant_id, _, *rest) = tenant.order().paid()
    return sql, [tenant_id, new("evt"), *rest]


def unsigned_id_reused(tenant: Tenant):
    """Where ids are not signed: a new event, and then an anomaly, in a statement of its own."""
    source, event_id = new_source(tenant, id_signed=False), new("evt")
    run(tenant.db, at_source(source, tenant.order().paid(event_id=event_id)))
    return at_source(source, tenant.order().paid(event_id=event_id))


def redelivered_parked(tenant: Tenant):
    """It parked because its source named a wrong merchant, which is mended."""
    source = new_source(tenant, merchant_id="m2")
    call = at_source(source, tenant.order().paid())
    run(tenant.db, call)
    mend = "UPDATE payment_idem.sources SET merchant_id = 'm1' WHERE tenant = $1 AND source = $2"
    run(tenant.db, (mend, [tenant.id, source]))
    return call


def batch(tenant: Tenant):
    """One of most of the above, two copies of one, and a forgery."""
    copies, forged = applied(tenant), tenant.event(new("O"))
    forged[1][-1] = "0" * 64
    others = [parked, second_payment, unreadable, digest_conflict, event_id_mismatch]
    return in_batch([copies, forged, *(prepare(tenant) for prepare in others), copies])


def create_order(tenant: Tenant, reference: str | None = None):
    return CREATE_ORDER, [tenant.id, reference or new("O"), new("gw")]


def create_order_settling(tenant: Tenant):
    """One parked event moves the order, one pays it, one is an exception."""
    reference = new("O")
    for facts in [{"type": "attempted"}, {}, {}]:
        run(tenant.db, tenant.event(reference, **facts))
    return create_order(tenant, reference)


def create_order_filling_in(tenant: Tenant):
    return create_order(tenant, tenant.order().reference)


def claim(tenant: Tenant):
    run(tenant.db, tenant.order().paid())
    return "SELECT * FROM payment_idem.claim('worker', 1, '1 hour', NULL, $1)", [tenant.id]


def ack(tenant: Tenant):
    (message,) = run(tenant.db, claim(tenant))
    return "SELECT payment_idem.ack($1)", [message["lease_token"]]


def nack(tenant: Tenant):
    (message,) = run(tenant.db, claim(tenant))
    return "SELECT payment_idem.nack($1, 'closed today', '1 hour')", [message["lease_token"]]


@dataclass(frozen=True)
class Kind:
    """What the call answers, and what the same call answers when it is made again: a part of each row."""

    prepare: Callable[[Tenant], tuple]
    answer: list[dict]
    again: list[dict]

    def assert_answer(self, rows: list[dict]):
        assert rows == [row | told for row, told in zip(rows, self.answer, strict=True)]

    def assert_again(self, rows: list[dict]):
        assert rows == [row | told for row, told in zip(rows, self.again, strict=True)]


def event(outcome: str, reason: str | None = None, again: str = "duplicate", first: str | None = None):
    known = {} if outcome in ("rejected", "digest_conflict") else {"first_outcome": first or outcome}
    return [{"outcome": outcome, "reason": reason} | known], [{"outcome": again} | known]


def both(told: dict) -> tuple[list, list]:
    return [told], [told]


def together(*events) -> tuple[list, list]:
    return [row for answer, _ in events for row in answer], [row for _, again in events for row in again]


KINDS = {
    prepare.__name__: Kind(prepare, answer, again)
    for prepare, (answer, again) in {
        applied: event("applied"),
        recorded: event("recorded", "unmapped_type"),
        same_payment: event("recorded", "same_payment"),
        parked: event("parked", "order_not_found"),
        second_payment: event("exception", "second_payment"),
        reference_reused: event("exception", "reference_reused"),
        superseding: event("applied"),
        unreadable: event("exception", "payload_unreadable"),
        digest_conflict: event("digest_conflict", again="digest_conflict"),
        event_id_mismatch: event("rejected", "event_id_mismatch", again="rejected"),
        unsigned_id_reused: event("applied"),
        redelivered_parked: event("applied", first="parked"),
        batch: together(
            event("applied"),
            event("rejected", "signature_mismatch", again="rejected"),
            event("parked", "order_not_found"),
            event("exception", "second_payment"),
            event("exception", "payload_unreadable"),
            event("digest_conflict", again="digest_conflict"),
            event("rejected", "event_id_mismatch", again="rejected"),
            both({"outcome": "duplicate", "first_outcome": "applied"}),
        ),
        create_order: ([{"outcome": "created", "status": "PENDING"}], [{"outcome": "existing"}]),
        create_order_settling: ([{"outcome": "created", "status": "COMPLETED"}], [{"outcome": "existing"}]),
        create_order_filling_in: both({"outcome": "existing", "status": "PENDING"}),
        claim: ([{"action": "fulfil_order", "attempts": 1}], []),
        ack: both({"ack": True}),
        nack: ([{"nack": True}], [{"nack": False}]),
    }.items()
}

# --- what is in the tables --------------------------------------------------------------------------------------


def tables(db) -> list[str]:
    """Every table of the extension, by the catalogue: a new one is looked at, locked and broken by itself."""
    rows = db.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'payment_idem'::regnamespace"
        " AND relkind IN ('r', 'p') AND NOT relispartition ORDER BY relname"
    )
    return [row["relname"] for row in rows]


def contents(db, tenant: Tenant) -> dict[str, Counter]:
    """Every row of the tenant, table by table, as text."""
    (row,) = db.execute(
        """
        SELECT string_agg(format('SELECT %L AS relation, t::text AS row FROM payment_idem.%I t WHERE %s',
            relname, relname, CASE WHEN attname IS NULL THEN 'true' ELSE 'tenant = $1::uuid' END), ' UNION ALL ') AS sql
        FROM pg_class LEFT JOIN pg_attribute ON attrelid = pg_class.oid AND attname = 'tenant' AND NOT attisdropped
        WHERE relnamespace = 'payment_idem'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
        """
    )
    found = {}
    for row in db.execute(row["sql"], [tenant.id]):
        found.setdefault(row["relation"], Counter())[row["row"]] += 1
    return found


def effect(before: dict[str, Counter], after: dict[str, Counter]) -> dict[str, tuple[int, int]]:
    """How many rows vanished from and how many are new in each table that changed; a changed row is one of each."""
    changes = {}
    for table in before | after:
        old, new_rows = before.get(table, Counter()), after.get(table, Counter())
        if old != new_rows:
            changes[table] = ((old - new_rows).total(), (new_rows - old).total())
    return changes


def clean_effect(db, tenant: Tenant, kind: Kind, call=None) -> dict[str, tuple[int, int]]:
    """What a call of this kind leaves when nobody disturbs it."""
    call = call or kind.prepare(tenant)
    before = contents(db, tenant)
    kind.assert_answer(run(db, call))
    left = effect(before, contents(db, tenant))
    assert left, "a call that writes nothing proves nothing here"
    return left


def assert_once(db, tenant: Tenant, kind: Kind, call, before, expected):
    """The call has left its effect once: what is expected since `before`, and the same call again adds nothing."""
    after = contents(db, tenant)
    assert effect(before, after) == expected
    kind.assert_again(run(db, call))
    assert contents(db, tenant) == after


class OwnRows:
    """A table of the caller's own, there until the block ends."""

    def __init__(self, db):
        self.db = db
        self.table = f"own_{secrets.token_hex(6)}"

    def __enter__(self):
        self.db.execute(f"CREATE TABLE {self.table} ()")
        return self

    def __exit__(self, *_):
        self.db.execute(f"DROP TABLE {self.table}")

    def add(self, session):
        session.execute(f"INSERT INTO {self.table} DEFAULT VALUES")

    def count(self) -> int:
        return self.db.execute(f"SELECT count(*) FROM {self.table}").fetchone()["count"]
