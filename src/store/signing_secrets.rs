//! `payment_idem.signing_secrets`: what verifies a source's deliveries.

use pgrx::Uuid;

use crate::pg::moment::Moment;
use crate::pg::statement::{run, run_latest, statement};

statement!(
    OF_SOURCE,
    "SELECT secret, valid_from, valid_until FROM payment_idem.signing_secrets \
     WHERE tenant = $1 AND source = $2 ORDER BY secret_id DESC",
    [UUIDOID, TEXTOID]
);
statement!(
    OF_OTHER_SOURCES,
    "SELECT k.secret FROM payment_idem.signing_secrets k \
     JOIN payment_idem.sources s ON s.tenant = k.tenant AND s.source = k.source \
     WHERE k.tenant = $1 AND k.source <> $2 AND s.gateway = $3 ORDER BY k.secret_id DESC LIMIT 20",
    [UUIDOID, TEXTOID, TEXTOID]
);
// The source's row is locked, so that two sessions that add the same secret agree on one number.
statement!(
    LOCK_SOURCE,
    "SELECT 1 FROM payment_idem.sources WHERE tenant = $1 AND source = $2 FOR NO KEY UPDATE",
    [UUIDOID, TEXTOID]
);
statement!(
    FIND_ACTIVE,
    "SELECT secret_id FROM payment_idem.signing_secrets \
     WHERE tenant = $1 AND source = $2 AND secret = $3 AND (valid_until IS NULL OR valid_until > $4) \
     ORDER BY secret_id LIMIT 1",
    [UUIDOID, TEXTOID, TEXTOID, TIMESTAMPTZOID]
);
statement!(
    INSERT,
    "INSERT INTO payment_idem.signing_secrets (tenant, source, secret, valid_until, kind) VALUES ($1, $2, $3, $4, $5) \
     RETURNING secret_id",
    [UUIDOID, TEXTOID, TEXTOID, TIMESTAMPTZOID, TEXTOID]
);
statement!(
    SET_END,
    "UPDATE payment_idem.signing_secrets SET valid_until = $2 \
     WHERE secret_id = $1 AND valid_until IS DISTINCT FROM $2",
    [INT8OID, TIMESTAMPTZOID]
);
statement!(
    RETIRE,
    "UPDATE payment_idem.signing_secrets SET valid_until = $2 \
     WHERE secret_id = $1 AND (valid_until IS NULL OR valid_until > $2)",
    [INT8OID, TIMESTAMPTZOID]
);
statement!(TENANT_OF, "SELECT tenant FROM payment_idem.signing_secrets WHERE secret_id = $1", [INT8OID]);

/// A secret's text with the moments between which it is valid.
pub struct StoredSecret {
    /// The secret.
    pub text: String,
    /// Valid from here,
    pub valid_from: Moment,
    /// and before here; `None`: until retired.
    pub valid_until: Option<Moment>,
}

/// The secrets of a source, newest first.
pub fn of_source(tenant: Uuid, source: &str) -> Vec<StoredSecret> {
    run_latest!(OF_SOURCE, tenant, source)
        .iter()
        .map(|row| StoredSecret { text: row.value(1), valid_from: row.value(2), valid_until: row.get(3) })
        .collect()
}

/// The newest secrets of the tenant's other sources of the same gateway.
pub fn of_other_sources(tenant: Uuid, source: &str, gateway: &str) -> Vec<String> {
    run_latest!(OF_OTHER_SOURCES, tenant, source, gateway).iter().map(|row| row.value(1)).collect()
}

/// Adds a secret, or finds the active one with the same text and sets its end; returns its number.
pub fn add(
    tenant: Uuid,
    source: &str,
    secret: &str,
    valid_until: Option<Moment>,
    is_public: bool,
    now: Moment,
) -> i64 {
    let kind = if is_public { "public_key" } else { "shared" };
    run!(LOCK_SOURCE, tenant, source);
    let active: Option<i64> = run!(FIND_ACTIVE, tenant, source, secret, now).first().map(|row| row.value(1));
    match active {
        Some(secret_id) => {
            run!(SET_END, secret_id, valid_until);
            secret_id
        }
        None => run!(INSERT, tenant, source, secret, valid_until, kind)
            .first()
            .expect("RETURNING gives a row")
            .value(1),
    }
}

/// Ends a secret's validity; an earlier end stays.
pub fn retire(secret_id: i64, at: Moment) {
    run!(RETIRE, secret_id, at);
}

/// The tenant of a secret; `None` where there is no such secret.
pub fn tenant_of(secret_id: i64) -> Option<Uuid> {
    run!(TENANT_OF, secret_id).first().map(|row| row.value(1))
}
