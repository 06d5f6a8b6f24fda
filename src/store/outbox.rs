//! `payment_idem.outbox`: queued, claimed, acknowledged, given back.

use pgrx::datum::Interval;
use pgrx::{JsonB, Uuid};

use crate::pg::error::write_prevented;
use crate::pg::moment::Moment;
use crate::pg::statement::{RowOf, arg, row_statement, run, statement};

row_statement!(
    QUEUE,
    "INSERT INTO payment_idem.outbox (tenant, receipt, action, order_id, seq, available_at, created_at) \
     SELECT tenant, receipt, action, order_id, seq, created_at, created_at FROM {rows}",
    [
        (tenant, UUIDOID),
        (receipt, INT8OID),
        (action, TEXTOID),
        (order_id, UUIDOID),
        (seq, INT8OID),
        (created_at, TIMESTAMPTZOID)
    ]
);

// FOR UPDATE SKIP LOCKED keeps two workers apart; the lease keeps them apart after the commit.
statement!(
    CLAIM,
    "WITH due AS ( \
         SELECT tenant, receipt, action FROM payment_idem.outbox \
         WHERE delivered_at IS NULL AND available_at <= $6 \
           AND ($4 IS NULL OR action = ANY ($4)) AND ($5 IS NULL OR tenant = ANY ($5)) \
         ORDER BY available_at LIMIT $2 FOR UPDATE SKIP LOCKED), \
     leased AS ( \
         UPDATE payment_idem.outbox o \
         SET attempts = least(o.attempts, 2147483646) + 1, lease_token = pg_catalog.gen_random_uuid(), lease_until = $6 + $3, \
             available_at = $6 + $3, worker = $1 \
         FROM due WHERE o.tenant = due.tenant AND o.receipt = due.receipt AND o.action = due.action \
         RETURNING o.*) \
     SELECT l.lease_token, l.lease_until, payment_idem.message_id(l.tenant, r.source, r.identity, l.action), l.tenant, \
            l.action, l.order_id, l.seq, r.source, r.event_id, r.kind, o.merchant_id, o.client_txn_id, o.amount_minor, \
            o.currency, l.attempts, l.created_at, r.gateway_order_id, r.payment_refs \
     FROM leased l \
     JOIN payment_idem.event_receipts r ON r.tenant = l.tenant AND r.receipt = l.receipt \
     LEFT JOIN payment_idem.orders o ON o.tenant = l.tenant AND o.order_id = l.order_id \
     ORDER BY l.tenant, l.receipt, l.action",
    [TEXTOID, INT4OID, INTERVALOID, TEXTARRAYOID, UUIDARRAYOID, TIMESTAMPTZOID]
);
// The token stays on a delivered row: a worker whose answer was lost may acknowledge again.
statement!(
    ACK,
    "UPDATE payment_idem.outbox SET delivered_at = coalesce(delivered_at, $3) \
     WHERE lease_token = $1 AND ($2 IS NULL OR tenant = ANY ($2)) RETURNING 1",
    [UUIDOID, UUIDARRAYOID, TIMESTAMPTZOID]
);
// Doubles from 5 seconds up to an hour; the exponent is bounded, so that no number of attempts overflows.
statement!(
    NACK,
    "UPDATE payment_idem.outbox \
     SET lease_token = NULL, lease_until = NULL, last_error = pg_catalog.left($3, 1000), \
         available_at = $5 + coalesce($4, least(interval '1 hour', \
                                                interval '5 seconds' * pg_catalog.power(2, least(attempts, 12) - 1))) \
     WHERE lease_token = $1 AND delivered_at IS NULL AND ($2 IS NULL OR tenant = ANY ($2)) RETURNING 1",
    [UUIDOID, UUIDARRAYOID, TEXTOID, INTERVALOID, TIMESTAMPTZOID]
);

/// The row of an action that an event asks for, with the order and the action's number within it
/// where it has one.
pub fn row(
    tenant: Uuid,
    receipt: i64,
    action: &str,
    order: Option<(Uuid, i64)>,
    created_at: Moment,
) -> RowOf<6> {
    let (order_id, seq) = order.unzip();
    [arg(tenant), arg(receipt), arg(action), arg(order_id), arg(seq), arg(created_at)]
}

/// Queues actions, due at once.
pub fn queue(rows: &[RowOf<6>]) {
    if QUEUE.with(|statement| statement.run(rows)).len() < rows.len() {
        write_prevented("an outbox row");
    }
}

/// A leased row, with what a worker needs to act on it.
pub struct Leased {
    /// Proves the claim.
    pub lease_token: Uuid,
    /// When the claim ends.
    pub lease_until: Moment,
    /// The idempotency key of the work.
    pub message_id: Uuid,
    /// The tenant.
    pub tenant: Uuid,
    /// What to do,
    pub action: String,
    /// for which order; `None` where the event is too thin to name one.
    pub order_id: Option<Uuid>,
    /// Counts the order's rows.
    pub seq: Option<i64>,
    /// The source of the event,
    pub source: String,
    /// its id
    pub event_id: Option<String>,
    /// and kind.
    pub kind: Option<String>,
    /// The order's merchant
    pub merchant_id: Option<String>,
    /// and that merchant's reference.
    pub client_txn_id: Option<String>,
    /// The order's amount in minor units of `currency`.
    pub amount_minor: Option<i64>,
    /// ISO 4217 code.
    pub currency: Option<String>,
    /// How often it was claimed, this time included.
    pub attempts: i32,
    /// When it was queued.
    pub created_at: Moment,
    /// The gateway's id of the order, as the event names it.
    pub gateway_order_id: Option<String>,
    /// The references of the payment, as the event names them: {kind: reference}.
    pub payment_refs: Option<JsonB>,
}

/// Leases rows that are due; `None` for actions or tenants means all.
pub fn claim(
    worker: &str,
    max_rows: i32,
    lease: Interval,
    actions: Option<Vec<String>>,
    tenants: Option<Vec<Uuid>>,
) -> Vec<Leased> {
    run!(CLAIM, worker, max_rows, lease, actions, tenants, Moment::now())
        .iter()
        .map(|row| Leased {
            lease_token: row.value(1),
            lease_until: row.value(2),
            message_id: row.value(3),
            tenant: row.value(4),
            action: row.value(5),
            order_id: row.get(6),
            seq: row.get(7),
            source: row.value(8),
            event_id: row.get(9),
            kind: row.get(10),
            merchant_id: row.get(11),
            client_txn_id: row.get(12),
            amount_minor: row.get(13),
            currency: row.get(14),
            attempts: row.value(15),
            created_at: row.value(16),
            gateway_order_id: row.get(17),
            payment_refs: row.get(18),
        })
        .collect()
}

/// Marks a leased row delivered; `false` where the token is not the row's own any longer.
pub fn ack(lease_token: Uuid, tenants: Option<Vec<Uuid>>) -> bool {
    !run!(ACK, lease_token, tenants, Moment::now()).is_empty()
}

/// Gives a leased row back; `false` where the token is not the row's own any longer.
pub fn nack(
    lease_token: Uuid,
    tenants: Option<Vec<Uuid>>,
    error: Option<&str>,
    retry_after: Option<Interval>,
) -> bool {
    !run!(NACK, lease_token, tenants, error, retry_after, Moment::now()).is_empty()
}
