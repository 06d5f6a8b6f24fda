//! `payment_idem.transactions`: the ledger. Lines are appended, and nothing else.

use pgrx::Uuid;

use crate::domain::ledger::{CHAIN_VERSION, Line};
use crate::pg::error::write_prevented;
use crate::pg::moment::Moment;
use crate::pg::statement::{RowOf, arg, row_statement};

row_statement!(
    APPEND,
    "INSERT INTO payment_idem.transactions (tenant, receipt, kind, order_id, seq, event_type, amount_minor, currency, \
         from_status, to_status, source, event_id, gateway_order_id, bank_utr, created_at, chain_version, prev_hash, \
         hash) \
     SELECT tenant, receipt, kind, order_id, seq, event_type::payment_idem.payment_event_type, amount_minor, currency, \
         from_status::payment_idem.order_status, to_status::payment_idem.order_status, source, event_id, \
         gateway_order_id, bank_utr, created_at, chain_version, prev_hash, hash \
     FROM {rows}",
    [
        (tenant, UUIDOID),
        (receipt, INT8OID),
        (kind, TEXTOID),
        (order_id, UUIDOID),
        (seq, INT8OID),
        (event_type, TEXTOID),
        (amount_minor, INT8OID),
        (currency, TEXTOID),
        (from_status, TEXTOID),
        (to_status, TEXTOID),
        (source, TEXTOID),
        (event_id, TEXTOID),
        (gateway_order_id, TEXTOID),
        (bank_utr, TEXTOID),
        (created_at, TIMESTAMPTZOID),
        (chain_version, INT2OID),
        (prev_hash, BYTEAOID),
        (hash, BYTEAOID)
    ]
);

/// The row of a line whose hash is this.
pub fn row(line: &Line<'_>, hash: &[u8; 32]) -> RowOf<18> {
    [
        arg(Uuid::from_bytes(line.tenant)),
        arg(line.receipt),
        arg(line.kind),
        arg(Uuid::from_bytes(line.order_id)),
        arg(line.seq),
        arg(line.event_type),
        arg(line.amount_minor),
        arg(line.currency),
        arg(line.from_status.as_str()),
        arg(line.to_status.as_str()),
        arg(line.source),
        arg(line.event_id),
        arg(line.gateway_order_id),
        arg(line.bank_utr),
        arg(Moment(line.created_at_us)),
        arg(CHAIN_VERSION),
        arg(line.prev_hash.as_ref().map(<[u8; 32]>::as_slice)),
        arg(hash.as_slice()),
    ]
}

/// Appends lines.
pub fn append(rows: &[RowOf<18>]) {
    if APPEND.with(|statement| statement.run(rows)).len() < rows.len() {
        write_prevented("a ledger line");
    }
}
