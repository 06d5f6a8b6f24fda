//! `claim`, `ack` and `nack`.

use pgrx::datum::{Interval, TimestampWithTimeZone};
use pgrx::iter::TableIterator;
use pgrx::{JsonB, Uuid, name, pg_extern};

use crate::api::access::{Profile, require_tenant, tenants_of};
use crate::pg::caller::as_owner;
use crate::pg::error::{invalid, required};
use crate::store::outbox;

const SECOND_US: i128 = 1_000_000;
const MAX_LEASE_US: i128 = 24 * 60 * 60 * SECOND_US;
const MAX_RETRY_AFTER_US: i128 = 30 * 24 * 60 * 60 * SECOND_US;
const MAX_ROWS: i32 = 1000;

#[pg_extern(sql = false)]
#[allow(clippy::type_complexity, reason = "the columns of claim, once")]
fn claim(
    worker: Option<&str>,
    max_rows: Option<i32>,
    lease: Option<Interval>,
    actions: Option<Vec<Option<String>>>,
    tenant: Option<Uuid>,
) -> TableIterator<
    'static,
    (
        name!(lease_token, Uuid),
        name!(lease_until, TimestampWithTimeZone),
        name!(message_id, Uuid),
        name!(tenant_id, Uuid),
        name!(action, String),
        name!(order_id, Option<Uuid>),
        name!(seq, Option<i64>),
        name!(source, String),
        name!(event_id, Option<String>),
        name!(kind, Option<String>),
        name!(merchant_id, Option<String>),
        name!(client_txn_id, Option<String>),
        name!(amount_minor, Option<i64>),
        name!(currency, Option<String>),
        name!(attempts, i32),
        name!(created_at, TimestampWithTimeZone),
        name!(gateway_order_id, Option<String>),
        name!(payment_refs, Option<JsonB>),
    ),
> {
    let worker = required(worker, "worker");
    let max_rows = required(max_rows, "max_rows");
    let lease = required(lease, "lease");
    if worker.trim().is_empty() || worker.len() > 255 {
        invalid(
            "worker",
            "It is blank or longer than 255 bytes.",
            "Name the worker, so that people can find it.",
        )
    }
    if !(1..=MAX_ROWS).contains(&max_rows) {
        invalid(
            "max_rows",
            format!("It is not between 1 and {MAX_ROWS}."),
            "Claim what one worker does in one lease.",
        )
    }
    // A month has no fixed length: no number of them is between the two.
    if lease.months() != 0 || !(SECOND_US..=MAX_LEASE_US).contains(&lease.as_micros()) {
        invalid(
            "lease",
            "It is not between 1 second and 24 hours.",
            "Lease for somewhat longer than the work takes.",
        )
    }
    let actions = actions.map(|actions| actions.into_iter().flatten().collect());
    let rows = as_owner(|caller| {
        let tenants = match tenant {
            Some(tenant) => {
                require_tenant(caller, Profile::Worker, tenant);
                Some(vec![tenant])
            }
            None => tenants_of(caller, Profile::Worker),
        };
        outbox::claim(worker, max_rows, lease, actions, tenants)
    });
    TableIterator::new(rows.into_iter().map(|row| {
        (
            row.lease_token,
            row.lease_until.into(),
            row.message_id,
            row.tenant,
            row.action,
            row.order_id,
            row.seq,
            row.source,
            row.event_id,
            row.kind,
            row.merchant_id,
            row.client_txn_id,
            row.amount_minor,
            row.currency,
            row.attempts,
            row.created_at.into(),
            row.gateway_order_id,
            row.payment_refs,
        )
    }))
}

#[pg_extern(sql = false)]
fn ack(lease_token: Option<Uuid>) -> bool {
    let lease_token = required(lease_token, "lease_token");
    as_owner(|caller| outbox::ack(lease_token, tenants_of(caller, Profile::Worker)))
}

#[pg_extern(sql = false)]
fn nack(lease_token: Option<Uuid>, error: Option<&str>, retry_after: Option<Interval>) -> bool {
    let lease_token = required(lease_token, "lease_token");
    if let Some(retry_after) = &retry_after
        && (retry_after.months() != 0 || !(0..=MAX_RETRY_AFTER_US).contains(&retry_after.as_micros()))
    {
        invalid(
            "retry_after",
            "It is negative, or longer than 30 days.",
            "Leave it out for a back-off that grows.",
        )
    }
    as_owner(|caller| outbox::nack(lease_token, tenants_of(caller, Profile::Worker), error, retry_after))
}
