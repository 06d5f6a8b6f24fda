//! `payment_idem.anomalies`: authentic deliveries that contradict themselves or an earlier one.

use pgrx::Uuid;

use crate::pg::moment::Moment;
use crate::pg::statement::{run, statement};

// The look-up first: a sender that repeats itself for days writes nothing and burns no number.
statement!(
    NOTE,
    "INSERT INTO payment_idem.anomalies (tenant, source, kind, identity, claimed_id, payload_sha256, \
                                         first_sha256, receipt, noticed_at) \
     SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9 \
     WHERE NOT EXISTS (SELECT FROM payment_idem.anomalies a \
                       WHERE (a.tenant, a.source, a.kind, a.identity, a.payload_sha256) = ($1, $2, $3, $4, $6)) \
     ON CONFLICT ON CONSTRAINT anomalies_once DO NOTHING",
    [UUIDOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, BYTEAOID, BYTEAOID, INT8OID, TIMESTAMPTZOID]
);

/// An anomaly: safe facts only.
#[derive(Clone, Debug)]
pub struct Anomaly<'a> {
    /// `digest_conflict`, `event_id_mismatch` or `unsigned_id_reused`.
    pub kind: &'a str,
    /// The identity of the event.
    pub identity: String,
    /// The event id that the caller gave, where it differs.
    pub claimed_id: Option<&'a str>,
    /// Digest of the bytes noticed.
    pub payload_sha256: [u8; 32],
    /// Digest and number of the event that came first.
    pub first: Option<([u8; 32], i64)>,
}

impl Anomaly<'_> {
    /// What makes it one anomaly within a source.
    pub fn key(&self) -> (&str, &str, &[u8; 32]) {
        (self.kind, &self.identity, &self.payload_sha256)
    }
}

/// Stores the anomaly, once.
pub fn note(tenant: Uuid, source: &str, anomaly: &Anomaly<'_>, now: Moment) {
    run!(
        NOTE,
        tenant,
        source,
        anomaly.kind,
        anomaly.identity.as_str(),
        anomaly.claimed_id,
        anomaly.payload_sha256.as_slice(),
        anomaly.first.as_ref().map(|first| first.0.as_slice()),
        anomaly.first.map(|first| first.1),
        now
    );
}
