//! `ingest`: one effect per event, whatever was delivered before or is delivered at the same moment.

use std::collections::{HashMap, HashSet};

use pgrx::Uuid;

use crate::domain::decision::decide_alone;
use crate::domain::event::{Event, Unreadable};
use crate::domain::order::Status;
use crate::domain::outcome::{Outcome, Reason};
use crate::domain::signature::AgeCheck;
use crate::flow::locate::{Found, Orders, meet_create_order, order_changed};
use crate::flow::open::{Envelope, Opened, Opener, Rejected, Request};
use crate::flow::settle::{Case, Origin, RivalWasFirst, Settled, settle};
use crate::pg::error::write_prevented;
use crate::pg::moment::Moment;
use crate::store::anomalies::{self, Anomaly};
use crate::store::event_receipts::{self, Known, Parked};
use crate::store::orders;
use crate::store::sources::Source;

/// One row of `ingest_result`.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Of which delivery, counted from 0; a delivery that bundles events has several.
    pub delivery: usize,
    /// What became of the delivery,
    pub outcome: Outcome,
    /// and why; of a duplicate, the word that the first delivery got.
    pub reason: Option<String>,
    /// What to answer the gateway.
    pub http_status: u16,
    /// The event's id.
    pub event_id: Option<String>,
    /// Its order,
    pub order_id: Option<Uuid>,
    /// and that order's status now.
    pub order_status: Option<Status>,
    /// The number of the ledger line.
    pub transaction_id: Option<i64>,
    /// The number of the exception.
    pub exception_id: Option<i64>,
    /// SHA-256 of the bytes given; `None` where they are too many to be looked at.
    pub payload_sha256: Option<[u8; 32]>,
    /// The outcome of the first delivery.
    pub first_outcome: Option<String>,
    /// When that was.
    pub first_received_at: Option<Moment>,
}

/// Takes in deliveries of one source, as if they had come one after the other. Writes nothing of a
/// delivery before its signature holds.
pub fn ingest(tenant: Uuid, source: &Source, requests: &[Request<'_>], age: AgeCheck) -> Vec<Answer> {
    let now = Moment::now();
    let opener = Opener { source, now, age };
    let deliveries = requests.iter().enumerate();
    let opened: Vec<Opened<'_>> = deliveries.flat_map(|(at, request)| opener.open(at, request)).collect();
    let call = Call { tenant, source, now };
    let envelopes: Vec<&Envelope<'_>> = opened.iter().filter_map(Opened::envelope).collect();
    let mut known = call.find(&envelopes);
    let mut turns = call.turns(&envelopes, &known);
    // Once: what is locked now stays so, and an order beside it would be locked out of order.
    let orders = call.locate(&mut turns);
    loop {
        match call.settle(&turns, &orders) {
            Ok(settled) => break call.answer(&opened, known, settled, &orders),
            Err(RivalWasFirst) => {
                // It has committed by now, and is seen by a new statement.
                known = call.find(&envelopes);
                let before = steps_left(&turns);
                turns.retain_mut(|turn| call.still_has_its_turn(turn, &known));
                if steps_left(&turns) == before {
                    write_prevented("a receipt");
                }
            }
        }
    }
}

/// How far these events are from being settled; a rival that was first brings them nearer.
fn steps_left(turns: &[Turn<'_>]) -> usize {
    turns.iter().map(|turn| if turn.parked.is_none() { 2 } else { 1 }).sum()
}

fn is_parked(known: &Known) -> bool {
    known.outcome == Outcome::Parked.as_str()
}

/// What is known of events, by identity.
type KnownEvents = HashMap<String, Known>;

/// An event whose turn it is to be settled: new, or parked and tried again.
struct Turn<'a> {
    envelope: &'a Envelope<'a>,
    parked: Option<Parked>,
    receipt: i64,
    found: Found,
}

impl Turn<'_> {
    /// The event; a parked one as it was read then, for `create_order` would settle the same facts.
    fn event(&self) -> Result<&Event, &Unreadable> {
        self.parked.as_ref().map_or(self.envelope.read.as_ref(), |parked| Ok(&parked.event))
    }

    /// The event, where it has to do with an order.
    fn event_of_order(&self, source: &Source) -> Option<&Event> {
        self.event().ok().filter(|event| decide_alone(event, source.live_mode).is_none())
    }
}

/// What was settled: number and result, by identity and digest.
type SettledEvents<'a> = HashMap<(&'a str, [u8; 32]), (i64, Settled)>;

struct Call<'a> {
    tenant: Uuid,
    source: &'a Source,
    now: Moment,
}

impl Call<'_> {
    fn find(&self, envelopes: &[&Envelope<'_>]) -> KnownEvents {
        let mut seen = HashSet::new();
        let identities = envelopes.iter().map(|envelope| envelope.identity.text.as_str());
        let identities: Vec<&str> = identities.filter(|identity| seen.insert(*identity)).collect();
        event_receipts::find(self.tenant, &self.source.name, &identities).into_iter().collect()
    }

    /// Settles what is new, and what was parked and has an order now.
    fn settle<'b>(&self, turns: &[Turn<'b>], orders: &Orders) -> Result<SettledEvents<'b>, RivalWasFirst> {
        let ready = |turn: &&Turn<'_>| turn.parked.is_none() || turn.found != Found::Unknown;
        let cases: Vec<Case<'_>> = turns
            .iter()
            .filter(ready)
            .map(|turn| Case {
                source: self.source,
                identity: &turn.envelope.identity.text,
                receipt: turn.receipt,
                event: turn.event(),
                event_id: match &turn.parked {
                    Some(parked) => parked.event.event_id.as_deref(),
                    None => turn.envelope.event_id(),
                },
                origin: match &turn.parked {
                    Some(parked) => Origin::Parked(&parked.reason),
                    None => Origin::Delivered(turn.envelope.delivery(self.source)),
                },
                found: turn.found,
            })
            .collect();
        let settled = settle(self.tenant, orders, &cases, self.now)?;
        Ok(turns
            .iter()
            .filter(ready)
            .zip(settled)
            .map(|(turn, settled)| (turn.envelope.key(), (turn.receipt, settled)))
            .collect())
    }

    /// The events to be settled, each new one with its number: of a new event the first copy, of a
    /// parked one the first with its bytes.
    fn turns<'b>(&self, envelopes: &[&'b Envelope<'b>], known: &KnownEvents) -> Vec<Turn<'b>> {
        let mut seen = HashSet::new();
        let mut turns: Vec<Turn<'b>> = envelopes
            .iter()
            .filter(|envelope| {
                let identity = envelope.identity.text.as_str();
                let first = known.get(identity);
                first.is_none_or(|first| is_parked(first) && first.payload_sha256 == envelope.sha256)
                    && seen.insert(identity)
            })
            .map(|envelope| Turn { envelope, parked: None, receipt: 0, found: Found::Unknown })
            .collect();
        turns.retain_mut(|turn| self.still_has_its_turn(turn, known));
        let numbers = event_receipts::take_numbers(turns.iter().filter(|turn| turn.parked.is_none()).count());
        for (turn, number) in turns.iter_mut().filter(|turn| turn.parked.is_none()).zip(numbers) {
            turn.receipt = number;
        }
        turns
    }

    /// Whether the event is to be settled by this call, by what is known of it now.
    fn still_has_its_turn(&self, turn: &mut Turn<'_>, known: &KnownEvents) -> bool {
        let Some(first) = known.get(&turn.envelope.identity.text) else { return true };
        if !is_parked(first) || first.payload_sha256 != turn.envelope.sha256 {
            return false;
        }
        turn.receipt = first.receipt;
        turn.parked = event_receipts::parked(self.tenant, &self.source.name, &turn.envelope.identity.text);
        turn.parked.is_some()
    }

    /// Finds and locks the orders of these events. Those that have none meet `create_order`, and
    /// each other, and look again; but not those that wait in vain again.
    fn locate(&self, turns: &mut [Turn<'_>]) -> Orders {
        let one = turns.len() <= 1;
        let mut orders = if one { Orders::locking(self.tenant) } else { Orders::looking(self.tenant) };
        self.look(&mut orders, turns, |_| true);
        let lost = |turn: &Turn<'_>| match turn.found {
            Found::Unknown => turn.parked.is_none(),
            found => found.order_id().is_none(),
        };
        let events =
            turns.iter().filter(|turn| lost(turn)).filter_map(|turn| turn.event_of_order(self.source));
        meet_create_order(self.tenant, events);
        self.look(&mut orders, turns, lost);
        if !one {
            orders.lock_found();
            self.look(&mut orders, turns, |_| true);
        }
        orders
    }

    fn look(&self, orders: &mut Orders, turns: &mut [Turn<'_>], which: impl Fn(&Turn<'_>) -> bool) {
        for turn in turns.iter_mut().filter(|turn| which(turn)) {
            let Some(event) = turn.event_of_order(self.source) else { continue };
            let found = orders.locate(self.source, event);
            if turn.found.order_id().is_some() && found.order_id().is_none() {
                // To meet `create_order` now would be out of order: the keys come before the orders.
                order_changed();
            }
            turn.found = found;
        }
    }

    /// An answer per delivery, as it was in its turn; then the anomalies are noted.
    fn answer<'b>(
        &self,
        opened: &'b [Opened<'b>],
        mut known: KnownEvents,
        mut settled: SettledEvents<'b>,
        orders: &Orders,
    ) -> Vec<Answer> {
        let last_number = settled.values().map(|(number, _)| *number).max().unwrap_or_default();
        let mut statuses: HashMap<[u8; 16], Status> = HashMap::new();
        let mut anomalies: Vec<Anomaly<'_>> = Vec::new();
        let mut answers = Vec::with_capacity(opened.len());
        for opened in opened {
            let envelope = match opened {
                Opened::Rejected(rejected) => {
                    anomalies.extend(rejected.anomaly.clone());
                    answers.push(self.rejected(rejected));
                    continue;
                }
                Opened::Event(envelope) => envelope,
            };
            let identity = envelope.identity.text.as_str();
            if let Some((number, settled)) = settled.remove(&envelope.key()) {
                if let (Some(order_id), Some(status)) = (settled.order_id, settled.order_status) {
                    statuses.insert(*order_id.as_bytes(), status);
                }
                if !known.contains_key(identity) {
                    anomalies.extend(self.reused_id(envelope, (number, last_number)));
                }
                let first = known.entry(identity.to_owned()).or_insert_with(|| Known {
                    receipt: number,
                    payload_sha256: envelope.sha256.to_vec(),
                    first_outcome: settled.outcome.as_str().to_owned(),
                    first_reason: settled.reason.map(|reason| reason.as_str().to_owned()),
                    outcome: String::new(),
                    event_id: envelope.event_id().map(str::to_owned),
                    order_id: None,
                    received_at: self.now,
                });
                first.outcome = settled.outcome.as_str().to_owned();
                first.order_id = settled.order_id;
                let reason = settled.reason.map(|reason| reason.as_str().to_owned());
                answers.push(self.answer_of(first, settled.outcome, reason, settled.order_status, envelope));
                continue;
            }
            let first = known.get(identity).unwrap_or_else(|| write_prevented("a receipt"));
            let status = first.order_id.and_then(|order_id| {
                let before = || orders.status(order_id).or_else(|| orders::status(self.tenant, order_id));
                statuses.get(order_id.as_bytes()).copied().or_else(before)
            });
            if first.payload_sha256 == envelope.sha256 {
                let reason = first.first_reason.clone();
                answers.push(self.answer_of(first, Outcome::Duplicate, reason, status, envelope));
            } else {
                // The first digest stays, the second is noted.
                let digest = first.payload_sha256.as_slice().try_into().expect("a digest of 32 bytes");
                anomalies.push(Anomaly {
                    kind: "digest_conflict",
                    identity: identity.to_owned(),
                    claimed_id: None,
                    payload_sha256: envelope.sha256,
                    first: Some((digest, first.receipt)),
                });
                let mut answer = self.answer_of(first, Outcome::DigestConflict, None, status, envelope);
                (answer.transaction_id, answer.exception_id) = (None, None);
                answers.push(answer);
            }
        }
        anomalies.sort_by(|a, b| a.key().cmp(&b.key())); // as all calls lock them
        for anomaly in &anomalies {
            anomalies::note(self.tenant, &self.source.name, anomaly, self.now);
        }
        answers
    }

    /// Other bytes came under this unsigned id before: a new event, and a sender to look at.
    fn reused_id<'b>(
        &self,
        envelope: &'b Envelope<'b>,
        // Those of this call that come later have their own turn.
        own_numbers: (i64, i64),
    ) -> Option<Anomaly<'b>> {
        let tells = !self.source.id_signed && self.source.gateway.id_identifies();
        let event_id = envelope.event_id().filter(|_| tells)?;
        let (receipt, digest) =
            event_receipts::unsigned_id_taken(self.tenant, &self.source.name, event_id, own_numbers)?;
        Some(Anomaly {
            kind: "unsigned_id_reused",
            identity: envelope.identity.text.clone(),
            claimed_id: Some(event_id),
            payload_sha256: envelope.sha256,
            first: digest.as_slice().try_into().ok().map(|digest| (digest, receipt)),
        })
    }

    fn answer_of(
        &self,
        known: &Known,
        outcome: Outcome,
        reason: Option<String>,
        order_status: Option<Status>,
        envelope: &Envelope<'_>,
    ) -> Answer {
        let word = reason.as_deref().and_then(Reason::from_word);
        Answer {
            delivery: envelope.delivery,
            outcome,
            http_status: self.source.http_statuses.get(outcome, word),
            reason,
            event_id: known.event_id.clone(),
            order_id: known.order_id,
            order_status,
            transaction_id: (known.outcome == Outcome::Applied.as_str()).then_some(known.receipt),
            exception_id: (known.outcome == Outcome::Exception.as_str()).then_some(known.receipt),
            payload_sha256: Some(envelope.sha256),
            first_outcome: Some(known.first_outcome.clone()),
            first_received_at: Some(known.received_at),
        }
    }

    fn rejected(&self, rejected: &Rejected<'_>) -> Answer {
        let Rejected { delivery, reason, payload_sha256, .. } = *rejected;
        Answer {
            delivery,
            outcome: Outcome::Rejected,
            reason: Some(reason.as_str().to_owned()),
            http_status: self.source.http_statuses.get(Outcome::Rejected, Some(reason)),
            event_id: rejected.event_id.clone(),
            order_id: None,
            order_status: None,
            transaction_id: None,
            exception_id: None,
            payload_sha256,
            first_outcome: None,
            first_received_at: None,
        }
    }
}
