//! From the bytes of a delivery to authentic events. Touches no table.

use pgrx::check_for_interrupts;

use crate::domain::event::{self, Event, Fault, Unreadable};
use crate::domain::identifier;
use crate::domain::outcome::Reason;
use crate::domain::place::Request as PlaceRequest;
use crate::domain::signature::{self, AgeCheck, Delivery as Signed, Headers, Verdict};
use crate::pg::moment::Moment;
use crate::store::anomalies::Anomaly;
use crate::store::event_receipts::Delivery;
use crate::store::sources::Source;

/// One delivery, as the caller got it from the wire.
pub struct Request<'a> {
    /// The event id, where the caller knows it.
    pub event_id: Option<&'a str>,
    /// The exact bytes of the body.
    pub payload: &'a [u8],
    /// The value of the signature header.
    pub signature: Option<&'a str>,
    /// The request's headers.
    pub headers: Option<&'a Headers>,
}

/// A delivery after its bytes were looked at, and nothing else.
pub enum Opened<'a> {
    /// It is not authentic, or not acceptable as a request.
    Rejected(Rejected<'a>),
    /// It is an authentic event.
    Event(Envelope<'a>),
}

/// Why a delivery, or an item of one, is not taken in.
pub struct Rejected<'a> {
    /// Of which delivery, counted from 0.
    pub delivery: usize,
    /// Why.
    pub reason: Reason,
    /// The event's id, as far as one is known.
    pub event_id: Option<String>,
    /// SHA-256 of its bytes; `None` where they are too many to be looked at.
    pub payload_sha256: Option<[u8; 32]>,
    /// What is to be noted of it.
    pub anomaly: Option<Anomaly<'a>>,
}

impl<'a> Opened<'a> {
    /// The event, where it is authentic.
    pub fn envelope(&self) -> Option<&Envelope<'a>> {
        match self {
            Opened::Event(envelope) => Some(envelope),
            Opened::Rejected(_) => None,
        }
    }
}

/// An authentic event: a delivery, or an item of one.
pub struct Envelope<'a> {
    /// Of which delivery, counted from 0.
    pub delivery: usize,
    request: &'a Request<'a>,
    /// The event's own bytes.
    bytes: &'a [u8],
    /// SHA-256 of them.
    pub sha256: [u8; 32],
    /// What makes it the event that it is.
    pub identity: Identity,
    /// The event, or why it cannot be read.
    pub read: Result<Event, Unreadable>,
}

impl Envelope<'_> {
    /// The event's id, as it is read or, where none is, as it was given.
    pub fn event_id(&self) -> Option<&str> {
        read_id(&self.read).or(self.request.event_id)
    }

    /// What tells it from all other deliveries but its copies.
    pub fn key(&self) -> (&str, [u8; 32]) {
        (&self.identity.text, self.sha256)
    }

    /// What its receipt keeps beside what was decided.
    pub fn delivery(&self, source: &Source) -> Delivery<'_> {
        Delivery {
            identity_kind: self.identity.kind,
            payload_sha256: self.sha256,
            evidence: source.keep_payload.then_some(self.bytes),
        }
    }
}

fn read_id(read: &Result<Event, Unreadable>) -> Option<&str> {
    match read {
        Ok(event) => event.event_id.as_deref(),
        Err(unreadable) => unreadable.event_id.as_deref(),
    }
}

/// What makes an event the same event.
pub struct Identity {
    /// `event_id` or `digest`.
    pub kind: &'static str,
    /// The identity.
    pub text: String,
}

/// Marks an identity that is a digest; an event id that begins so is none, and goes by its digest too.
const DIGEST_PREFIX: &str = "sha256:";

impl Identity {
    /// The signed id or, where none is signed or readable, the digest: an id that anybody could
    /// have written must not stand in the way of the true event. With the digest goes a type that
    /// stands outside the body: a gateway may send the same bytes as several events.
    fn of(signed_id: Option<&str>, sha256: &[u8; 32], outer_type: Option<&str>) -> Self {
        if let Some(id) = signed_id.filter(|id| !id.starts_with(DIGEST_PREFIX)) {
            return Identity { kind: "event_id", text: id.to_owned() };
        }
        let mut text = format!("{DIGEST_PREFIX}{}", hex::encode(sha256));
        if let Some(outer_type) = outer_type {
            text.push('/');
            text.push_str(outer_type);
        }
        Identity { kind: "digest", text }
    }
}

/// Opens the deliveries of one source.
pub struct Opener<'a> {
    /// The source.
    pub source: &'a Source,
    /// The moment of receipt.
    pub now: Moment,
    /// Which ages of a signed timestamp pass.
    pub age: AgeCheck,
}

impl Opener<'_> {
    /// Authenticates a delivery and reads its events.
    pub fn open<'b>(&self, delivery: usize, request: &'b Request<'b>) -> Vec<Opened<'b>> {
        check_for_interrupts!();
        let body = request.payload;
        let rejected = |reason, payload_sha256| {
            let event_id = request.event_id.map(str::to_owned);
            Opened::Rejected(Rejected { delivery, reason, event_id, payload_sha256, anomaly: None })
        };
        let reject = |reason, sha256| vec![rejected(reason, sha256)];
        if body.len() > self.source.max_payload_bytes {
            return reject(Reason::TooLarge, None);
        }
        if request.event_id.is_some_and(|id| identifier::check(id).is_err()) {
            return reject(Reason::EventIdMalformed, Some(signature::digest(body)));
        }
        let gateway = &self.source.gateway;
        if gateway.signs_items() {
            return match gateway.items(body) {
                Some(Ok(items)) => items
                    .into_iter()
                    .map(|item| {
                        check_for_interrupts!();
                        match self.authenticate(request, item) {
                            Ok(()) => self.read(delivery, request, item),
                            Err(reason) => rejected(reason, Some(signature::digest(item))),
                        }
                    })
                    .collect(),
                _ => reject(Reason::SignatureMalformed, Some(signature::digest(body))),
            };
        }
        if let Err(reason) = self.authenticate(request, body) {
            return reject(reason, Some(signature::digest(body)));
        }
        check_for_interrupts!();
        match gateway.items(body) {
            None => vec![self.read(delivery, request, body)],
            Some(Ok(items)) => items.into_iter().map(|item| self.read(delivery, request, item)).collect(),
            Some(Err(_)) => {
                let read = Err(Unreadable { fault: Fault::NoItems, event_id: None });
                vec![self.envelope(delivery, request, body, read)]
            }
        }
    }

    /// Reads an authentic event.
    fn read<'b>(&self, delivery: usize, request: &'b Request<'b>, bytes: &'b [u8]) -> Opened<'b> {
        let place =
            PlaceRequest { body: bytes, headers: request.headers, parameters: &self.source.parameters };
        let read = event::read(&self.source.gateway, place, &self.source.exponents);
        check_for_interrupts!();
        self.envelope(delivery, request, bytes, read)
    }

    fn envelope<'b>(
        &self,
        delivery: usize,
        request: &'b Request<'b>,
        bytes: &'b [u8],
        read: Result<Event, Unreadable>,
    ) -> Opened<'b> {
        let sha256 = signature::digest(bytes);
        let id_identifies = self.source.id_signed && self.source.gateway.id_identifies();
        if let (Some(signed), Some(given)) = (read_id(&read), request.event_id)
            && id_identifies
            && signed != given
        {
            let anomaly = Anomaly {
                kind: "event_id_mismatch",
                identity: signed.to_owned(),
                claimed_id: Some(given),
                payload_sha256: sha256,
                first: None,
            };
            return Opened::Rejected(Rejected {
                delivery,
                reason: Reason::EventIdMismatch,
                event_id: Some(signed.to_owned()),
                payload_sha256: Some(sha256),
                anomaly: Some(anomaly),
            });
        }
        // A body that cannot be relied on gives no identity either: it must not stand in the way of a true event.
        let signed = read_id(&read).filter(|_| id_identifies && read.is_ok());
        let outer_type = match &read {
            // Of types that mean nothing one is as good as another.
            Ok(event) if event.kind.is_some() && !self.source.gateway.type_is_in_body() => {
                Some(event.event_type.as_str())
            }
            _ => None,
        };
        let identity = Identity::of(signed, &sha256, outer_type);
        Opened::Event(Envelope { delivery, request, bytes, sha256, identity, read })
    }

    fn authenticate(&self, request: &Request<'_>, bytes: &[u8]) -> Result<(), Reason> {
        let secrets = self.source.secrets_at(self.now);
        if secrets.is_empty() {
            return Err(Reason::NoActiveSecret);
        }
        let signed = Signed {
            body: bytes,
            signature: request.signature,
            headers: request.headers,
            parameters: &self.source.parameters,
        };
        // Each is a pass over the body.
        let secrets = secrets.into_iter().inspect(|_| {
            check_for_interrupts!();
        });
        match signature::verify(self.source.gateway.scheme(), &signed, secrets, self.now.unix_s(), self.age) {
            Verdict::Valid { .. } => Ok(()),
            Verdict::Mismatch => Err(Reason::SignatureMismatch),
            Verdict::Malformed(_) => Err(Reason::SignatureMalformed),
            Verdict::Expired => Err(Reason::TimestampOutOfTolerance),
        }
    }
}
