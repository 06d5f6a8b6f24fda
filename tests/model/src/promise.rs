//! What an order's events promise as a *set*, whatever the order in which they came (P8): in closed form, without
//! any run of the model.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::history::History;
use crate::model::{Claim, Content, Event, Kind, Name, OrderKey, Place, Setting, Status, World};
use crate::tables::{ReceiptRow, Tables};

/// The order that each claim is judged against, if it is the same whatever was known of the orders at that moment.
fn places(history: &History, setting: &Setting, known: &World, claim: &Claim) -> BTreeSet<Place> {
    // Each order may have been unknown, or known without its gateway order id, unless it was there from the start.
    let mut worlds = vec![World::default()];
    for (key, order) in &known.orders {
        let at_first = history.before.iter().find(|new| new.key == *key);
        let mut next = Vec::new();
        for world in worlds {
            let with = |gateway_order: &Option<String>| {
                let mut world = world.clone();
                let order = crate::model::Order { gateway_order: gateway_order.clone(), ..order.clone() };
                world.orders.insert(key.clone(), order);
                world
            };
            next.push(with(&order.gateway_order));
            if order.gateway_order.is_some() && at_first.is_none_or(|new| new.gateway_order.is_none()) {
                next.push(with(&None));
            }
            if at_first.is_none() {
                next.push(world);
            }
        }
        worlds = next;
    }
    worlds.iter().map(|world| world.locate(setting, claim)).filter(|place| *place != Place::Nowhere).collect()
}

/// Groups of events that share a name, directly or through others: payments. Each event without a name is one.
fn payments<'a>(events: impl Iterator<Item = (&'a Event, &'a Claim)>) -> Vec<Vec<&'a Event>> {
    let mut payments: Vec<(BTreeSet<&Name>, Vec<&Event>)> = Vec::new();
    for (event, claim) in events.filter(|(_, claim)| claim.kind == Kind::Succeeded) {
        let mut names: BTreeSet<&Name> = claim.names.iter().collect();
        let mut members = vec![event];
        payments.retain(|(other, their)| {
            let apart = names.is_disjoint(other);
            if !apart {
                names.extend(other);
                members.extend(their);
            }
            apart
        });
        payments.push((names, members));
    }
    payments.into_iter().map(|(_, events)| events).collect()
}

fn claims(events: &[Arc<Event>]) -> impl Iterator<Item = (&Event, &Claim)> {
    events.iter().filter_map(|event| match &event.content {
        Content::About(claim) => Some((&**event, claim)),
        _ => None,
    })
}

/// Status, money, ledger and work of every order that is apart from the others, whatever the order of its events.
pub fn same_end(
    history: &History,
    known: &World,
    events: &[Arc<Event>],
    tables: &Tables,
) -> Result<(), String> {
    if history.own_rules.is_some() {
        return Ok(()); // rules of one's own need not lead upwards
    }
    let setting = Setting {
        rules: history.rules(),
        source_merchant: history.source_merchant.clone(),
        numbers: BTreeMap::new(),
    };
    // Apart is an order whose payments go by no other order's names, and whose events could mean no other order.
    let mut of_order: BTreeMap<OrderKey, Vec<&Claim>> = BTreeMap::new();
    let mut named: BTreeMap<&Name, BTreeSet<OrderKey>> = BTreeMap::new();
    let mut entangled: BTreeSet<OrderKey> = BTreeSet::new();
    for (_, claim) in claims(events) {
        let places = places(history, &setting, known, claim);
        for place in &places {
            let (Place::At(key) | Place::Contradiction(Some(key))) = place else { continue };
            if places.len() > 1 {
                entangled.insert(key.clone());
            }
            if matches!(place, Place::At(_)) {
                of_order.entry(key.clone()).or_default().push(claim);
            }
            if claim.kind == Kind::Succeeded {
                claim.names.iter().for_each(|name| named.entry(name).or_default().extend([key.clone()]));
            }
        }
    }
    entangled.extend(named.into_values().filter(|orders| orders.len() > 1).flatten());

    for row in tables.orders.values().filter(|row| !entangled.contains(&row.key)) {
        let order = &known.orders[&row.key];
        let status = |claim: &&Claim| match claim.kind {
            Kind::Attempted | Kind::Authorized => Status::Processing,
            Kind::Failed => Status::Failed,
            Kind::Expired => Status::Expired,
            Kind::Succeeded => {
                let fits = (claim.currency.as_deref(), claim.amount_minor)
                    == (Some(order.currency), Some(order.amount_minor));
                if fits {
                    Status::Completed
                } else {
                    Status::Pending
                }
            }
        };
        let status = of_order
            .get(&row.key)
            .and_then(|claims| claims.iter().map(status).max())
            .unwrap_or(Status::Pending);
        let paid = i64::from(status == Status::Completed);
        let promise = (status.to_string(), paid * order.amount_minor, paid, paid);
        let lines_with_money = row.ledger.iter().filter(|line| line.1 != 0).count() as i64;
        let now = (row.status.clone(), row.paid_minor, lines_with_money, row.outbox);
        if now != promise {
            return Err(format!(
                "order {:?}: status, paid, lines, outbox {now:?}, its events promise {promise:?}",
                row.key
            ));
        }
    }
    Ok(())
}

/// Every payment for an order is booked or behind an open exception; one that was booked for two orders, which only a
/// later event can tell, is behind an open exception in any case (P7).
pub fn all_visible(events: &[Arc<Event>], tables: &Tables) -> Result<(), String> {
    let receipts: BTreeMap<&str, &ReceiptRow> =
        tables.receipts.iter().map(|r| (r.identity.as_str(), r)).collect();
    let receipt = |event: &Event| receipts[event.identity.as_str()];
    let booked = |event: &Event| receipt(event).now.0 == "applied";
    let open =
        |event: &Event| tables.exceptions.iter().any(|e| e.open && e.exception_id == receipt(event).receipt);
    for (id, row) in &tables.orders {
        for payment in payments(claims(events).filter(|(event, _)| receipt(event).order_id == Some(*id))) {
            if !payment.iter().any(|event| booked(event) || open(event)) {
                let events: Vec<_> = payment.iter().map(|event| &event.identity).collect();
                return Err(format!(
                    "order {:?}: the payment of events {events:?} is neither booked nor open",
                    row.key
                ));
            }
        }
    }
    // What a parked event ties together is not known yet.
    for payment in payments(claims(events).filter(|(event, _)| receipt(event).now.0 != "parked")) {
        let orders: BTreeSet<_> = payment.iter().filter(|e| booked(e)).map(|e| receipt(e).order_id).collect();
        if orders.len() > 1 && !payment.iter().any(|event| open(event)) {
            let events: Vec<_> = payment.iter().map(|event| &event.identity).collect();
            return Err(format!(
                "one payment, of events {events:?}, paid {} orders, and nobody is told",
                orders.len()
            ));
        }
    }
    Ok(())
}
