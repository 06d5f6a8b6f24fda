//! `create_order`: makes an order known, and settles the events that waited for it.

use std::collections::HashMap;

use pgrx::Uuid;
use uuid::Uuid as OrderedUuid;

use crate::domain::order::Status;
use crate::flow::locate::Orders;
use crate::flow::settle::{Case, Origin, RivalWasFirst, settle};
use crate::pg::error::{serialization_failure, write_prevented};
use crate::pg::moment::Moment;
use crate::store::event_receipts::{self, Parked};
use crate::store::order_keys::{self, KeyKind};
use crate::store::orders::{self, NewOrder, Stored};
use crate::store::payloads;
use crate::store::sources::{self, Source};

/// The facts of an order, as `create_order` is told.
pub struct Facts<'a> {
    /// The tenant.
    pub tenant: Uuid,
    /// The merchant within it.
    pub merchant_id: &'a str,
    /// The merchant's own reference.
    pub client_txn_id: &'a str,
    /// In minor units of `currency`.
    pub amount_minor: i64,
    /// ISO 4217 code, upper case.
    pub currency: &'a str,
    /// When it expires unpaid.
    pub expires_at: Option<Moment>,
    /// The gateway's id of the order.
    pub gateway_order_id: Option<&'a str>,
    /// The customer's mobile.
    pub customer_mobile: Option<&'a str>,
}

/// What `create_order` answers: `created`, `existing` or `conflict`.
pub struct Created {
    /// The word.
    pub outcome: &'static str,
    /// The order; of a conflict, the one that stands in the way.
    pub order_id: Uuid,
    /// Its status now.
    pub status: Status,
}

/// Makes the order or finds it, fills in what was not known, and settles what was parked for it.
pub fn create_order(facts: &Facts<'_>) -> Created {
    let now = Moment::now();
    if let Some(stored) = find(facts) {
        return existing(facts, stored, now);
    }
    // From here on, an event that names this order waits for us, or we for it.
    order_keys::meet(facts.tenant, KeyKind::ClientTxn, facts.client_txn_id, None);
    if let Some(stored) = find(facts) {
        return existing(facts, stored, now);
    }
    let order_id = time_ordered_id();
    if let Some(owner) = claim_gateway_order(facts, order_id) {
        return answer("conflict", facts.tenant, owner);
    }
    let order = NewOrder {
        order_id,
        merchant_id: facts.merchant_id,
        client_txn_id: facts.client_txn_id,
        amount_minor: facts.amount_minor,
        currency: facts.currency,
        gateway_order_id: facts.gateway_order_id,
        expires_at: facts.expires_at,
    };
    orders::insert(facts.tenant, &order, now);
    if let Some(mobile) = facts.customer_mobile {
        payloads::keep_customer_mobile(facts.tenant, order_id, mobile, now);
    }
    settle_parked(facts, order_id, now);
    answer("created", facts.tenant, order_id)
}

fn find(facts: &Facts<'_>) -> Option<Stored> {
    orders::find(facts.tenant, facts.client_txn_id, facts.merchant_id)
}

/// The order exists: facts that differ are a conflict, facts that are new are filled in.
fn existing(facts: &Facts<'_>, stored: Stored, now: Moment) -> Created {
    let order_id = Uuid::from_bytes(stored.order.order_id);
    let mobile = facts.customer_mobile.and_then(|_| payloads::customer_mobile(facts.tenant, order_id));
    let changed =
        |given: Option<&str>, known: Option<&str>| given.is_some() && known.is_some() && given != known;
    if facts.amount_minor != stored.order.amount_minor
        || facts.currency != stored.order.currency
        || changed(facts.gateway_order_id, stored.order.gateway_order_id.as_deref())
        || changed(facts.customer_mobile, mobile.as_deref())
        || (facts.expires_at.is_some()
            && stored.expires_at.is_some()
            && facts.expires_at != stored.expires_at)
    {
        return Created { outcome: "conflict", order_id, status: stored.order.status };
    }
    let new_gateway_order = facts.gateway_order_id.is_some() && stored.order.gateway_order_id.is_none();
    let new_expiry = facts.expires_at.is_some() && stored.expires_at.is_none();
    let new_mobile = facts.customer_mobile.is_some() && mobile.is_none();
    if !(new_gateway_order || new_expiry || new_mobile) {
        // What still waits here does so for a mistake that is mended since, such as a source's merchant.
        settle_parked(facts, order_id, now);
        return answer("existing", facts.tenant, order_id);
    }
    if new_gateway_order && let Some(owner) = claim_gateway_order(facts, order_id) {
        return answer("conflict", facts.tenant, owner);
    }
    let locked = orders::lock(facts.tenant, order_id).unwrap_or_else(deleted_meanwhile);
    if changed(facts.gateway_order_id, locked.order.gateway_order_id.as_deref())
        || (new_expiry && locked.expires_at.is_some() && locked.expires_at != facts.expires_at)
        || (new_mobile && payloads::customer_mobile(facts.tenant, order_id).is_some())
    {
        serialization_failure("Another transaction filled in other facts of this order in this moment.")
    }
    if new_gateway_order || new_expiry {
        orders::fill_in(facts.tenant, order_id, facts.gateway_order_id, facts.expires_at, now);
    }
    if let (true, Some(mobile)) = (new_mobile, facts.customer_mobile) {
        payloads::keep_customer_mobile(facts.tenant, order_id, mobile, now);
    }
    settle_parked(facts, order_id, now);
    answer("existing", facts.tenant, order_id)
}

/// Claims the gateway's order id; says who owns it where that is another order.
fn claim_gateway_order(facts: &Facts<'_>, order_id: Uuid) -> Option<Uuid> {
    let gateway_order_id = facts.gateway_order_id?;
    order_keys::meet(facts.tenant, KeyKind::GatewayOrder, gateway_order_id, Some(order_id))
        .filter(|owner| *owner != order_id)
}

/// Settles the events that waited for this order, in order of arrival.
fn settle_parked(facts: &Facts<'_>, order_id: Uuid, now: Moment) {
    let mut waiting = parked(facts);
    while !waiting.is_empty() && settle_all(facts, order_id, &waiting, now).is_err() {
        let rest = parked(facts);
        if rest.len() == waiting.len() {
            write_prevented("a parked event");
        }
        waiting = rest;
    }
}

/// The events that wait for this order, or for one of the same name.
fn parked(facts: &Facts<'_>) -> Vec<Parked> {
    let mut waiting = event_receipts::parked_by_reference(facts.tenant, facts.client_txn_id);
    if let Some(gateway_order_id) = facts.gateway_order_id {
        waiting.extend(event_receipts::parked_by_gateway_order(facts.tenant, gateway_order_id));
    }
    waiting.sort_by_key(|parked| parked.receipt);
    waiting.dedup_by_key(|parked| parked.receipt);
    waiting.retain(|parked| !parked.event.is_thin);
    waiting
}

fn settle_all(
    facts: &Facts<'_>,
    order_id: Uuid,
    waiting: &[Parked],
    now: Moment,
) -> Result<(), RivalWasFirst> {
    let mut sources: HashMap<&str, Option<Source>> = HashMap::new();
    for parked in waiting {
        sources.entry(&parked.source).or_insert_with(|| sources::load(facts.tenant, &parked.source));
    }
    let mut orders = Orders::only(facts.tenant, order_id);
    let cases: Vec<Case<'_>> = waiting
        .iter()
        .filter_map(|parked| Some((parked, sources[parked.source.as_str()].as_ref()?)))
        .map(|(parked, source)| Case {
            source,
            identity: &parked.identity,
            receipt: parked.receipt,
            event: Ok(&parked.event),
            event_id: parked.event.event_id.as_deref(),
            origin: Origin::Parked(&parked.reason),
            found: orders.locate(source, &parked.event),
        })
        // Others speak of another merchant's order of the same name.
        .filter(|case| case.found.order_id() == Some(*order_id.as_bytes()))
        .collect();
    settle(facts.tenant, &orders, &cases, now).map(|_| ())
}

fn answer(outcome: &'static str, tenant: Uuid, order_id: Uuid) -> Created {
    let status = orders::status(tenant, order_id).unwrap_or_else(deleted_meanwhile);
    Created { outcome, order_id, status }
}

fn deleted_meanwhile<T>() -> T {
    serialization_failure("Another transaction deleted the order in this moment.")
}

/// UUIDv7 (RFC 9562): orders made together lie together in every index.
fn time_ordered_id() -> Uuid {
    Uuid::from_bytes(*OrderedUuid::now_v7().as_bytes())
}
