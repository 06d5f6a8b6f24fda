//! The ledger line and the hash that chains it to the line before.
//!
//! `payment_idem.ledger_line_hash` is the same encoding, written apart in SQL; both must agree.

use sha2::{Digest, Sha256};

use crate::domain::order::{Id, Status};

/// The version of the encoding below.
pub const CHAIN_VERSION: i16 = 1;

/// One line of the ledger, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// The hash of the order's line before; `None` for the first.
    pub prev_hash: Option<[u8; 32]>,
    /// The tenant.
    pub tenant: Id,
    /// The number of the event that is booked.
    pub receipt: i64,
    /// The normalised kind of that event.
    pub kind: &'a str,
    /// The order.
    pub order_id: Id,
    /// Counts the order's lines from 1.
    pub seq: i64,
    /// How it came to be known: a label of `payment_event_type`.
    pub event_type: &'a str,
    /// Signed minor units.
    pub amount_minor: i64,
    /// The order's currency.
    pub currency: &'a str,
    /// The order's status before.
    pub from_status: Status,
    /// The order's status after.
    pub to_status: Status,
    /// The source of the event.
    pub source: &'a str,
    /// The gateway's event id.
    pub event_id: Option<&'a str>,
    /// The gateway's order id in the event.
    pub gateway_order_id: Option<&'a str>,
    /// The bank's reference in the event.
    pub bank_utr: Option<&'a str>,
    /// When it is written: microseconds since 2000-01-01 UTC, as PostgreSQL stores it.
    pub created_at_us: i64,
}

impl Line<'_> {
    /// SHA-256 over every column: each as its length in 4 big-endian bytes, then its bytes, so
    /// that no two lines read alike; a NULL is the length -1.
    pub fn hash(&self) -> [u8; 32] {
        let mut chain = Chain(Sha256::new());
        chain.field(&CHAIN_VERSION.to_be_bytes());
        chain.optional(self.prev_hash.as_ref().map(<[u8; 32]>::as_slice));
        chain.field(&self.tenant);
        chain.field(&self.receipt.to_be_bytes());
        chain.field(self.kind.as_bytes());
        chain.field(&self.order_id);
        chain.field(&self.seq.to_be_bytes());
        chain.field(self.event_type.as_bytes());
        chain.field(&self.amount_minor.to_be_bytes());
        chain.field(self.currency.as_bytes());
        chain.field(self.from_status.as_str().as_bytes());
        chain.field(self.to_status.as_str().as_bytes());
        chain.field(self.source.as_bytes());
        chain.optional(self.event_id.map(str::as_bytes));
        chain.optional(self.gateway_order_id.map(str::as_bytes));
        chain.optional(self.bank_utr.map(str::as_bytes));
        chain.field(&self.created_at_us.to_be_bytes());
        chain.0.finalize().into()
    }
}

/// The seed's idempotency hash: SHA-256 over the length-prefixed (client_txn_id, utr, amount), in
/// lower-case hex. Only a payment with a bank reference has one: without it, two honest payments
/// of one order would look the same.
pub fn idempotency_hash(client_txn_id: &str, utr: &str, amount_minor: i64) -> String {
    let mut chain = Chain(Sha256::new());
    chain.field(client_txn_id.as_bytes());
    chain.field(utr.as_bytes());
    chain.field(&amount_minor.to_be_bytes());
    hex::encode(chain.0.finalize())
}

struct Chain(Sha256);

impl Chain {
    fn field(&mut self, bytes: &[u8]) {
        let length = u32::try_from(bytes.len()).expect("a stored column is shorter than 4 GiB");
        self.0.update(length.to_be_bytes());
        self.0.update(bytes);
    }

    fn optional(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.field(bytes),
            None => self.0.update([0xff; 4]),
        }
    }
}
