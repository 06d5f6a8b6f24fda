//! What the tables say after a history.

use std::collections::BTreeMap;
use std::time::SystemTime;

use postgres::{Client, Error};
use uuid::Uuid;

use crate::model::OrderKey;

pub struct ReceiptRow {
    pub identity: String,
    pub receipt: i64,
    pub digest: String,
    pub first: (String, Option<String>),
    pub now: (String, Option<String>),
    pub order_id: Option<Uuid>,
    pub received_at: SystemTime,
}

pub struct OrderRow {
    pub key: OrderKey,
    pub status: String,
    pub paid_minor: i64,
    pub gateway_order: Option<String>,
    pub outbox: i64,
    /// The ledger's lines in their order: receipt, money, status after.
    pub ledger: Vec<(i64, i64, String)>,
}

pub struct ExceptionRow {
    pub exception_id: i64,
    pub kind: String,
    pub order_id: Option<Uuid>,
    pub open: bool,
}

pub struct Tables {
    pub receipts: Vec<ReceiptRow>,
    pub orders: BTreeMap<Uuid, OrderRow>,
    pub exceptions: Vec<ExceptionRow>,
    /// Kind, value, order: references of payments and banks.
    pub references: Vec<(String, String, Uuid)>,
    /// Kind, identity, digest.
    pub anomalies: Vec<(String, String, String)>,
    pub outbox: usize,
}

impl Tables {
    pub fn read(client: &mut Client, tenant: Uuid) -> Result<Tables, Error> {
        let mut query = |sql: &str| client.query(sql, &[&tenant]);
        let receipts = query(
            "SELECT identity, receipt, encode(payload_sha256, 'hex') AS digest, first_outcome, first_reason, outcome, \
             reason, order_id, received_at FROM payment_idem.event_receipts WHERE tenant = $1",
        )?;
        let receipts = receipts
            .iter()
            .map(|row| ReceiptRow {
                identity: row.get("identity"),
                receipt: row.get("receipt"),
                digest: row.get("digest"),
                first: (row.get("first_outcome"), row.get("first_reason")),
                now: (row.get("outcome"), row.get("reason")),
                order_id: row.get("order_id"),
                received_at: row.get("received_at"),
            })
            .collect();
        let mut orders: BTreeMap<Uuid, OrderRow> = query(
            "SELECT order_id, merchant_id, client_txn_id, status::text, paid_minor, gateway_order_id, (SELECT count(*) \
             FROM payment_idem.outbox q WHERE (q.tenant, q.order_id) = (o.tenant, o.order_id)) AS outbox \
             FROM payment_idem.orders o WHERE tenant = $1",
        )?
        .iter()
        .map(|row| {
            let order = OrderRow {
                key: (row.get("merchant_id"), row.get("client_txn_id")),
                status: row.get("status"),
                paid_minor: row.get("paid_minor"),
                gateway_order: row.get("gateway_order_id"),
                outbox: row.get("outbox"),
                ledger: Vec::new(),
            };
            (row.get("order_id"), order)
        })
        .collect();
        let lines = query(
            "SELECT order_id, receipt, amount_minor, to_status::text FROM payment_idem.transactions WHERE tenant = $1 \
             ORDER BY order_id, seq",
        )?;
        for row in &lines {
            if let Some(order) = orders.get_mut(&row.get("order_id")) {
                order.ledger.push((row.get("receipt"), row.get("amount_minor"), row.get("to_status")));
            }
        }
        let exceptions = query(
            "SELECT exception_id, kind, order_id, resolved_at IS NULL AS open FROM payment_idem.exceptions WHERE tenant = $1",
        )?;
        let exceptions = exceptions
            .iter()
            .map(|row| ExceptionRow {
                exception_id: row.get("exception_id"),
                kind: row.get("kind"),
                order_id: row.get("order_id"),
                open: row.get("open"),
            })
            .collect();
        let references = query(
            "SELECT kind, value, order_id FROM payment_idem.payment_references \
             WHERE tenant = $1 AND kind <> 'idempotency_hash'",
        )?;
        let anomalies = query(
            "SELECT kind, identity, encode(payload_sha256, 'hex') FROM payment_idem.anomalies WHERE tenant = $1",
        )?;
        let outbox = query("SELECT count(*) FROM payment_idem.outbox WHERE tenant = $1")?[0].get::<_, i64>(0);
        Ok(Tables {
            receipts,
            orders,
            exceptions,
            references: references.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect(),
            anomalies: anomalies.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect(),
            outbox: outbox as usize,
        })
    }
}

/// What `check_invariants()` finds about these tenants.
pub fn broken_invariants(client: &mut Client, tenants: &[Uuid]) -> Result<Vec<(Uuid, String)>, Error> {
    let rows = client.query(
        "SELECT tenant, format('%s: %s: %s', invariant, subject, detail) FROM payment_idem.check_invariants() \
         WHERE tenant = ANY($1)",
        &[&tenants],
    )?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}
