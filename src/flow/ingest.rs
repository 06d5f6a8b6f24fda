//! `ingest`: from the bytes of one delivery to its one effect.

use pgrx::Uuid;

use crate::domain::decision::decide_alone;
use crate::domain::event::{self, Event, Unreadable};
use crate::domain::identifier;
use crate::domain::outcome::{Outcome, Reason};
use crate::domain::signature::{self, Delivery as Signed, Headers, Verdict};
use crate::flow::locate::{Found, locate, meet_create_order};
use crate::flow::settle::{Case, Settled, settle};
use crate::pg::error::{sentence, write_prevented};
use crate::pg::moment::Moment;
use crate::store::anomalies::{self, Anomaly};
use crate::store::effects::{self, Delivery, ExceptionFacts, Receipt, Written};
use crate::store::event_receipts::{self, Known};
use crate::store::payment_references::Keys;
use crate::store::sources::Source;

/// One delivery, as the caller got it from the wire.
pub struct Request<'a> {
    /// The tenant.
    pub tenant: Uuid,
    /// The event id, where the caller knows it.
    pub event_id: Option<&'a str>,
    /// The exact bytes of the body.
    pub payload: &'a [u8],
    /// The value of the signature header.
    pub signature: Option<&'a str>,
    /// The request's headers.
    pub headers: Option<&'a Headers>,
}

/// One row of `ingest_result`.
#[derive(Clone, Debug)]
pub struct Answer {
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
    pub order_status: Option<String>,
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

/// Takes in one delivery. Writes nothing before the signature holds.
pub fn ingest(source: &Source, request: &Request<'_>) -> Answer {
    if request.payload.len() > source.max_payload_bytes {
        return rejected(source, Reason::TooLarge, request.event_id, None);
    }
    let call = Call { source, request, now: Moment::now(), sha256: signature::digest(request.payload) };
    if let Err(reason) = call.authenticate() {
        return call.rejected(reason, request.event_id);
    }
    let read = event::read(&source.gateway, request.payload);
    let signed_id = match &read {
        Ok(event) => event.event_id.as_deref(),
        Err(unreadable) => unreadable.event_id.as_deref(),
    };
    if let (Some(signed), Some(given)) = (signed_id, request.event_id)
        && signed != given
    {
        let kind = "event_id_mismatch";
        call.note(&Anomaly {
            kind,
            identity: signed,
            claimed_id: Some(given),
            payload_sha256: call.sha256,
            first: None,
        });
        return call.rejected(Reason::EventIdMismatch, Some(signed));
    }
    // A body that cannot be relied on gives no identity either: it must not stand in the way of a true event.
    let identity = Identity::of(signed_id.filter(|_| source.id_signed && read.is_ok()), &call.sha256);
    let event_id = signed_id.or(request.event_id);
    let find = || event_receipts::find(request.tenant, &source.name, &identity.text);
    let answer = match find() {
        Some(known) => call.again(&identity, known),
        None => call.first(&identity, event_id, &read),
    };
    // A rival was first: it has committed by now, and is seen by a new statement.
    answer
        .or_else(|| find().and_then(|known| call.again(&identity, known)))
        .unwrap_or_else(|| write_prevented("a receipt"))
}

/// What makes an event the same event.
struct Identity {
    kind: &'static str,
    text: String,
}

/// Marks an identity that is a digest; an event id that begins so is none, and goes by its digest too.
const DIGEST_PREFIX: &str = "sha256:";

impl Identity {
    /// The signed id or, where none is signed or readable, the digest: an id that anybody could
    /// have written must not stand in the way of the true event.
    fn of(signed_id: Option<&str>, sha256: &[u8; 32]) -> Self {
        match signed_id.filter(|id| !id.starts_with(DIGEST_PREFIX)) {
            Some(id) => Identity { kind: "event_id", text: id.to_owned() },
            None => Identity { kind: "digest", text: format!("{DIGEST_PREFIX}{}", hex::encode(sha256)) },
        }
    }
}

struct Call<'a> {
    source: &'a Source,
    request: &'a Request<'a>,
    now: Moment,
    sha256: [u8; 32],
}

impl Call<'_> {
    fn authenticate(&self) -> Result<(), Reason> {
        let request = self.request;
        if request.event_id.is_some_and(|id| identifier::check(id).is_err()) {
            return Err(Reason::EventIdMalformed);
        }
        let secrets = self.source.secrets_at(self.now);
        if secrets.is_empty() {
            return Err(Reason::NoActiveSecret);
        }
        let signed = Signed { body: request.payload, signature: request.signature, headers: request.headers };
        match signature::verify(
            self.source.gateway.scheme(),
            &signed,
            secrets,
            self.now.unix_s(),
            self.source.tolerance_s,
        ) {
            Verdict::Valid { .. } => Ok(()),
            Verdict::Mismatch => Err(Reason::SignatureMismatch),
            Verdict::Malformed(_) => Err(Reason::SignatureMalformed),
            Verdict::Expired => Err(Reason::TimestampOutOfTolerance),
        }
    }

    /// A first delivery; `None` where a rival was first after all.
    fn first(
        &self,
        identity: &Identity,
        event_id: Option<&str>,
        read: &Result<Event, Unreadable>,
    ) -> Option<Answer> {
        let number = event_receipts::next_number();
        let settled = match read {
            Err(unreadable) => self.raise_unreadable(identity, number, event_id, unreadable)?,
            Ok(event) => match decide_alone(event, self.source.live_mode) {
                Some(reason) => self.record_alone(identity, number, event_id, event, reason)?,
                None => self.settle_first(identity, number, event_id, event)?,
            },
        };
        if let (Some(event_id), false) = (event_id, self.source.id_signed) {
            self.note_reused_id(identity, event_id, number);
        }
        Some(self.settled(number, event_id, &settled, None))
    }

    fn raise_unreadable(
        &self,
        identity: &Identity,
        number: i64,
        event_id: Option<&str>,
        unreadable: &Unreadable,
    ) -> Option<Settled> {
        let (outcome, reason) = (Outcome::Exception, Reason::PayloadUnreadable);
        let delivery = self.delivery(identity);
        let receipt = self.receipt_alone(identity, number, event_id, None, (outcome, reason), &delivery);
        let detail = sentence(unreadable);
        let facts = ExceptionFacts { expected: None, detail: &detail };
        let written = effects::raise(&receipt, &Keys::default(), 0, &facts);
        (written == Written::All).then_some(Settled::alone(outcome, reason))
    }

    fn record_alone(
        &self,
        identity: &Identity,
        number: i64,
        event_id: Option<&str>,
        event: &Event,
        reason: Reason,
    ) -> Option<Settled> {
        let delivery = self.delivery(identity);
        let decided = (Outcome::Recorded, reason);
        let receipt = self.receipt_alone(identity, number, event_id, Some(event), decided, &delivery);
        let written = effects::record(&receipt, &Keys::default(), 0, "held");
        (written == Written::All).then_some(Settled::alone(Outcome::Recorded, reason))
    }

    fn settle_first(
        &self,
        identity: &Identity,
        number: i64,
        event_id: Option<&str>,
        event: &Event,
    ) -> Option<Settled> {
        let mut found = locate(self.request.tenant, self.source, event);
        if matches!(found, Found::Unknown) {
            meet_create_order(self.request.tenant, event);
            found = locate(self.request.tenant, self.source, event);
        }
        let delivery = self.delivery(identity);
        settle(&self.case(identity, number, event_id, event, Some(&delivery)), &found)
    }

    /// A delivery of an event that is known; `None` where a parked one was settled by a rival.
    fn again(&self, identity: &Identity, known: Known) -> Option<Answer> {
        if known.payload_sha256 != self.sha256 {
            return Some(self.conflict(identity, &known));
        }
        if known.outcome == Outcome::Parked.as_str() {
            // As it was read then: create_order would settle the same facts.
            let tenant = self.request.tenant;
            let parked = event_receipts::parked_by_identity(tenant, &self.source.name, &identity.text)?;
            let found = locate(tenant, self.source, &parked.event);
            if !matches!(found, Found::Unknown) {
                let event_id = known.event_id.as_deref();
                let case = self.case(identity, known.receipt, event_id, &parked.event, None);
                let settled = settle(&case, &found)?;
                return Some(self.settled(known.receipt, event_id, &settled, Some(&known)));
            }
        }
        Some(self.known(Outcome::Duplicate, known.first_reason.clone(), known))
    }

    /// The same signed identity with other bytes: the first digest stays, the second is noted.
    fn conflict(&self, identity: &Identity, known: &Known) -> Answer {
        let first: [u8; 32] = known.payload_sha256.as_slice().try_into().expect("a digest of 32 bytes");
        self.note(&Anomaly {
            kind: "digest_conflict",
            identity: &identity.text,
            claimed_id: None,
            payload_sha256: self.sha256,
            first: Some((first, known.receipt)),
        });
        let mut answer = self.known(Outcome::DigestConflict, None, known.clone());
        (answer.transaction_id, answer.exception_id) = (None, None);
        answer
    }

    /// Other bytes came under this unsigned id before: a new event, and a sender to look at.
    fn note_reused_id(&self, identity: &Identity, event_id: &str, number: i64) {
        let tenant = self.request.tenant;
        if let Some(first) = event_receipts::unsigned_id_taken(tenant, &self.source.name, event_id, number) {
            self.note(&Anomaly {
                kind: "unsigned_id_reused",
                identity: &identity.text,
                claimed_id: Some(event_id),
                payload_sha256: self.sha256,
                first: first.1.as_slice().try_into().ok().map(|digest| (digest, first.0)),
            });
        }
    }

    fn note(&self, anomaly: &Anomaly<'_>) {
        anomalies::note(self.request.tenant, &self.source.name, anomaly, self.now);
    }

    fn delivery(&self, identity: &Identity) -> Delivery<'_> {
        Delivery {
            identity_kind: identity.kind,
            payload_sha256: self.sha256,
            evidence: self.source.keep_payload.then_some(self.request.payload),
        }
    }

    fn case<'b>(
        &'b self,
        identity: &'b Identity,
        receipt: i64,
        event_id: Option<&'b str>,
        event: &'b Event,
        delivery: Option<&'b Delivery<'b>>,
    ) -> Case<'b> {
        Case {
            tenant: self.request.tenant,
            source: self.source,
            identity: &identity.text,
            receipt,
            event,
            event_id,
            delivery,
            now: self.now,
        }
    }

    /// The receipt of an event that was decided without an order.
    fn receipt_alone<'b>(
        &'b self,
        identity: &'b Identity,
        receipt: i64,
        event_id: Option<&'b str>,
        event: Option<&'b Event>,
        (outcome, reason): (Outcome, Reason),
        delivery: &'b Delivery<'b>,
    ) -> Receipt<'b> {
        Receipt {
            tenant: self.request.tenant,
            source: &self.source.name,
            identity: &identity.text,
            receipt,
            event,
            event_id,
            outcome,
            reason: Some(reason),
            order_id: None,
            delivery: Some(delivery),
            now: self.now,
        }
    }

    fn rejected(&self, reason: Reason, event_id: Option<&str>) -> Answer {
        rejected(self.source, reason, event_id, Some(self.sha256))
    }

    /// The answer for an event that was settled in this call.
    fn settled(
        &self,
        number: i64,
        event_id: Option<&str>,
        settled: &Settled,
        known: Option<&Known>,
    ) -> Answer {
        let first_outcome =
            known.map_or_else(|| settled.outcome.as_str().to_owned(), |k| k.first_outcome.clone());
        Answer {
            outcome: settled.outcome,
            reason: settled.reason.map(|reason| reason.as_str().to_owned()),
            http_status: self.source.http_statuses.get(settled.outcome, settled.reason),
            event_id: event_id.map(str::to_owned),
            order_id: settled.order_id,
            order_status: settled.order_status.map(|status| status.as_str().to_owned()),
            transaction_id: (settled.outcome == Outcome::Applied).then_some(number),
            exception_id: (settled.outcome == Outcome::Exception).then_some(number),
            payload_sha256: Some(self.sha256),
            first_outcome: Some(first_outcome),
            first_received_at: Some(known.map_or(self.now, |known| known.received_at)),
        }
    }

    /// The answer for an event that was settled before.
    fn known(&self, outcome: Outcome, reason: Option<String>, known: Known) -> Answer {
        let word = reason.as_deref().and_then(Reason::from_word);
        Answer {
            outcome,
            http_status: self.source.http_statuses.get(outcome, word),
            reason,
            event_id: known.event_id,
            order_id: known.order_id,
            order_status: known.order_status,
            transaction_id: (known.outcome == Outcome::Applied.as_str()).then_some(known.receipt),
            exception_id: (known.outcome == Outcome::Exception.as_str()).then_some(known.receipt),
            payload_sha256: Some(self.sha256),
            first_outcome: Some(known.first_outcome),
            first_received_at: Some(known.received_at),
        }
    }
}

fn rejected(
    source: &Source,
    reason: Reason,
    event_id: Option<&str>,
    payload_sha256: Option<[u8; 32]>,
) -> Answer {
    Answer {
        outcome: Outcome::Rejected,
        reason: Some(reason.as_str().to_owned()),
        http_status: source.http_statuses.get(Outcome::Rejected, Some(reason)),
        event_id: event_id.map(str::to_owned),
        order_id: None,
        order_status: None,
        transaction_id: None,
        exception_id: None,
        payload_sha256,
        first_outcome: None,
        first_received_at: None,
    }
}
