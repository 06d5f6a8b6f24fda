//! What an order is to the rules: its facts, its status and the moves that it may make.

use std::fmt;
use std::str::FromStr;

use crate::domain::kind::Kind;

/// A 128-bit key (UUID) as its bytes; the domain compares and hashes it, and nothing else.
pub type Id = [u8; 16];

/// Where an order stands: `payment_idem.order_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    /// Made, nothing heard yet.
    Pending,
    /// An attempt is under way.
    Processing,
    /// The last attempt failed; another may still pay.
    Failed,
    /// Its time ran out; a late payment may still pay it.
    Expired,
    /// Paid.
    Completed,
    /// Paid, and paid back.
    Refunded,
}

impl Status {
    /// Every status, from the least to the most advanced.
    pub const ALL: [Status; 6] = [
        Status::Pending,
        Status::Processing,
        Status::Failed,
        Status::Expired,
        Status::Completed,
        Status::Refunded,
    ];

    /// The label of the SQL enum.
    pub const fn as_str(self) -> &'static str {
        match self {
            Status::Pending => "PENDING",
            Status::Processing => "PROCESSING",
            Status::Failed => "FAILED",
            Status::Expired => "EXPIRED",
            Status::Completed => "COMPLETED",
            Status::Refunded => "REFUNDED",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Status {
    type Err = UnknownStatus;

    fn from_str(label: &str) -> Result<Self, Self::Err> {
        Status::ALL.into_iter().find(|status| status.as_str() == label).ok_or(UnknownStatus)
    }
}

/// A label that is no [`Status`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownStatus;

impl fmt::Display for UnknownStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not an order status")
    }
}

/// The order as it was read under its lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Our key.
    pub order_id: Id,
    /// The merchant within the tenant.
    pub merchant_id: String,
    /// The merchant's own reference.
    pub client_txn_id: String,
    /// What is to be paid, in minor units of `currency`.
    pub amount_minor: i64,
    /// ISO 4217 code, upper case.
    pub currency: String,
    /// Where it stands.
    pub status: Status,
    /// What was booked as paid, in minor units.
    pub paid_minor: i64,
    /// The seq of its last ledger line, 0 before the first.
    pub ledger_seq: i64,
    /// The hash of its last ledger line.
    pub ledger_head: Option<[u8; 32]>,
    /// The seq of its last outbox row, 0 before the first.
    pub outbox_seq: i64,
    /// The gateway's id of the order, where the caller told it.
    pub gateway_order_id: Option<String>,
}

/// The allowed moves: explicit edges (kind, from, to).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    edges: Vec<(Kind, Status, Status)>,
}

impl Rules {
    /// Rules from edges (kind, from, to); at most one edge leaves a status by a kind.
    pub fn new(edges: impl IntoIterator<Item = (Kind, Status, Status)>) -> Self {
        Rules { edges: edges.into_iter().collect() }
    }

    /// Where an event of this kind takes an order that stands at `from`; `None` where no edge leaves.
    pub fn next(&self, kind: Kind, from: Status) -> Option<Status> {
        self.edges.iter().find(|edge| (edge.0, edge.1) == (kind, from)).map(|edge| edge.2)
    }

    /// Where this kind of event leads from anywhere; `None` where it moves nothing.
    pub fn aims_at(&self, kind: Kind) -> Option<Status> {
        self.edges.iter().filter(|edge| edge.0 == kind).map(|edge| edge.2).max()
    }
}
