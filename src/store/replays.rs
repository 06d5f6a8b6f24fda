//! `payment_idem.replays`: who replayed what, and why.

use pgrx::Uuid;

use crate::pg::error::write_prevented;
use crate::pg::moment::Moment;
use crate::pg::statement::{run, statement};

statement!(
    NOTE,
    "INSERT INTO payment_idem.replays (tenant, source, payload_sha256, outcome, reason, why, replayed_by, replayed_at) \
     VALUES ($1, $2, $3, $4, $5, $6, pg_catalog.pg_get_userbyid($7), $8) RETURNING 1",
    [UUIDOID, TEXTOID, BYTEAOID, TEXTOID, TEXTOID, TEXTOID, OIDOID, TIMESTAMPTZOID]
);

/// One replayed event.
pub struct Replay<'a> {
    /// The source.
    pub source: &'a str,
    /// SHA-256 of its bytes.
    pub payload_sha256: [u8; 32],
    /// What came of it,
    pub outcome: &'a str,
    /// and why.
    pub reason: Option<&'a str>,
    /// What the operator wrote.
    pub why: &'a str,
    /// The calling role.
    pub role: pgrx::pg_sys::Oid,
}

/// Notes a replay.
pub fn note(tenant: Uuid, replay: &Replay<'_>, now: Moment) {
    let Replay { source, outcome, reason, why, role, .. } = *replay;
    let digest = replay.payload_sha256.as_slice();
    if run!(NOTE, tenant, source, digest, outcome, reason, why, role, now).is_empty() {
        write_prevented("a replay");
    }
}
