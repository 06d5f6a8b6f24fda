//! What must hold after a history.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::history::{Call, History};
use crate::model::{Content, Event, Kind};
use crate::promise;
use crate::run::{Course, Done};
use crate::serial;
use crate::tables::{ReceiptRow, Tables};

/// Which check found something, and what.
pub type Fault = (&'static str, String);

pub fn examine(history: &History, course: &Course, tables: &Tables) -> Vec<Fault> {
    let mut faults: Vec<Fault> = course.errors.iter().map(|error| ("error", error.clone())).collect();
    faults.extend(course.work.faults.iter().map(|fault| ("worker", fault.clone())));
    let receipts: BTreeMap<&str, &ReceiptRow> =
        tables.receipts.iter().map(|r| (r.identity.as_str(), r)).collect();
    for (i, done) in course.done.iter().enumerate() {
        let misfit = match &done.call {
            Call::Deliver(_) => told_well(&course.done, i, &receipts),
            Call::CreateOrder(_) => None,
        };
        faults.extend(misfit.map(|what| ("answer", format!("{}: {what}; told {:?}", done.call, done.told))));
    }
    let events = accepted(&course.done, &receipts);
    if events.len() != receipts.len() {
        faults.push((
            "P2",
            format!("{} receipts, of {} events that were committed", receipts.len(), events.len()),
        ));
    }
    faults.extend(conservation(&events, &receipts, tables).map(|what| ("P7", what)));
    faults.extend(promise::all_visible(&events, tables).err().map(|what| ("P7 visible", what)));
    faults.extend(anomalies(&course.done, tables).map(|what| ("anomalies", what)));
    if history.workers {
        faults.extend(work(course, tables).map(|what| ("worker", what)));
    }
    match serial::serialize(history, &course.done, tables) {
        Err(what) => faults.push(("serial order", what)),
        Ok(world) => {
            faults.extend(promise::same_end(history, &world, &events, tables).err().map(|what| ("P8", what)))
        }
    }
    faults
}

/// What is true of an answer whatever else happened.
fn told_well(all: &[Done], i: usize, receipts: &BTreeMap<&str, &ReceiptRow>) -> Option<String> {
    let done = &all[i];
    let Call::Deliver(delivery) = &done.call else { return None };
    let told = &done.told;
    if told.payload_sha256.as_ref() != Some(&delivery.event.digest) {
        return Some("another digest".into());
    }
    if let Some(reason) = delivery.rejection() {
        let status = if reason.starts_with("event_id") { 400 } else { 401 };
        let well = (told.outcome.as_str(), told.reason.as_deref(), told.http_status)
            == ("rejected", Some(reason), status)
            && told.order_id.is_none()
            && told.transaction_id.is_none()
            && told.exception_id.is_none();
        return (!well).then(|| format!("it must be rejected as {reason}"));
    }
    if told.http_status != 200 {
        return Some("http_status must be 200".into());
    }
    if told.event_id.as_ref() != Some(&delivery.signed_id) && delivery.event.content != Content::Unreadable {
        return Some("another event id".into());
    }
    let identity = &delivery.event.identity;
    if !done.committed {
        // P4: a duplicate of something that is committed, or was made in this transaction.
        let made_here =
            |other: &Done| matches!(&other.call, Call::Deliver(d) if d.event.identity == *identity);
        let earlier = all[..i].iter().any(|other| other.transaction == done.transaction && made_here(other));
        let committed =
            all.iter().any(|other| other.committed && other.from < done.until && made_here(other));
        let of_a_first = ["duplicate", "digest_conflict"].contains(&told.outcome.as_str());
        return (of_a_first && !earlier && !committed).then(|| "P4: no first delivery is committed".into());
    }
    let Some(receipt) = receipts.get(identity.as_str()) else {
        return Some("committed, and no receipt".into());
    };
    let ids = [told.transaction_id, told.exception_id];
    if ids.iter().flatten().any(|id| *id != receipt.receipt) {
        return Some(format!("its number is {}", receipt.receipt));
    }
    (told.first_received_at != Some(receipt.received_at))
        .then(|| "first_received_at is not the receipt's".into())
}

/// The events that have a receipt, each with the bytes that came first.
fn accepted(done: &[Done], receipts: &BTreeMap<&str, &ReceiptRow>) -> Vec<Arc<Event>> {
    let mut events: BTreeMap<&str, &Arc<Event>> = BTreeMap::new();
    for done in done.iter().filter(|done| done.committed) {
        if let Call::Deliver(delivery) = &done.call {
            let event = &delivery.event;
            let first =
                receipts.get(event.identity.as_str()).is_some_and(|receipt| receipt.digest == event.digest);
            if first && delivery.rejection().is_none() {
                events.insert(&event.identity, event);
            }
        }
    }
    events.into_values().cloned().collect()
}

/// P7: money is booked, waits for its order, is of a payment that is known, or is an exception.
fn conservation(
    events: &[Arc<Event>],
    receipts: &BTreeMap<&str, &ReceiptRow>,
    tables: &Tables,
) -> Option<String> {
    events.iter().find_map(|event| {
        let receipt = receipts[event.identity.as_str()];
        let in_ledger = |money: bool| {
            tables
                .orders
                .values()
                .flat_map(|o| &o.ledger)
                .filter(|line| line.0 == receipt.receipt && (line.1 > 0) == money)
                .count()
        };
        let raised = tables.exceptions.iter().filter(|e| e.exception_id == receipt.receipt).count();
        let safe = match (&event.content, receipt.now.0.as_str(), receipt.now.1.as_deref()) {
            (Content::Unreadable, outcome, _) => outcome == "exception" && raised == 1,
            (Content::About(claim), outcome, reason) if claim.kind == Kind::Succeeded => match outcome {
                "applied" => in_ledger(true) == 1 && raised == 0,
                "exception" => raised == 1 && in_ledger(true) == 0,
                "parked" => true,
                _ => reason == Some("same_payment"),
            },
            _ => in_ledger(true) == 0,
        };
        (!safe).then(|| format!("{} is lost or doubled: {:?}", event.identity, receipt.now))
    })
}

/// Each contradiction is noted once, and nothing else is.
fn anomalies(done: &[Done], tables: &Tables) -> Option<String> {
    let noted: BTreeSet<_> = tables.anomalies.iter().cloned().collect();
    let told: BTreeSet<(String, String, String)> = done
        .iter()
        .filter(|done| done.committed)
        .filter_map(|done| {
            let Call::Deliver(delivery) = &done.call else { return None };
            let (kind, identity) = match (done.told.outcome.as_str(), done.told.reason.as_deref()) {
                ("digest_conflict", _) => ("digest_conflict", &delivery.event.identity),
                ("rejected", Some("event_id_mismatch")) => ("event_id_mismatch", &delivery.signed_id),
                _ => return None,
            };
            Some((kind.into(), identity.clone(), delivery.event.digest.clone()))
        })
        .collect();
    (told != noted || noted.len() != tables.anomalies.len())
        .then(|| format!("told {told:?}, noted {:?}", tables.anomalies))
}

/// Every row of the outbox reached a worker, says what was paid, and was acknowledged once.
fn work(course: &Course, tables: &Tables) -> Option<String> {
    if course.work.acked.len() != tables.outbox {
        return Some(format!(
            "{} messages reached the worker, {} are in the outbox",
            course.work.acked.len(),
            tables.outbox
        ));
    }
    if let Some((message, count)) = course.work.acked.iter().find(|(_, count)| **count != 1) {
        return Some(format!("message {message} was acknowledged {count} times"));
    }
    course.work.claimed.iter().find_map(|(message, order_id, amount, _)| {
        let paid = tables.orders.get(order_id).map(|order| order.paid_minor);
        (paid != Some(*amount))
            .then(|| format!("message {message} says {amount}, its order was paid {paid:?}"))
    })
}
