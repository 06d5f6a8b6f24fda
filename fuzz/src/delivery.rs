//! One delivery: a function of the seed and its number, but for the moment it is signed at.

use postgres::Row;
use rand::rngs::Xoshiro256PlusPlus as Random;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use sha2::{Digest, Sha256};

use crate::body::{Body, body};
use crate::endpoint::{ENDPOINTS, Endpoint};
use crate::signature::{Signature, Verdict, any_text, judge, signature};

/// Deliveries in one statement and one transaction.
pub const CHUNK: u64 = 1_000;
/// Sessions, each with a tenant of its own: two long transactions on the same orders would rightly deadlock.
pub const SESSIONS: u64 = 2;
/// Orders that a chunk makes.
pub const ORDERS: usize = 20;
/// The chunks of a session take turns at the endpoints: this many on is the same endpoint and tenant.
const TURN: u64 = SESSIONS * ENDPOINTS.len() as u64;

/// What a run is made from.
pub struct Plan {
    pub seed: u64,
    pub secret: String,
    /// Bodies to mutate.
    pub seeds: Vec<Vec<u8>>,
}

pub struct Delivery {
    pub number: u64,
    pub event_id: Option<String>,
    pub payload: Vec<u8>,
    pub signature: Signature,
    pub verdict: Verdict,
    /// The id under which it has to be readable, where that is sure.
    pub id: Option<String>,
}

/// Where a chunk goes.
pub fn endpoint(chunk: u64) -> &'static Endpoint {
    &ENDPOINTS[(chunk / SESSIONS) as usize % ENDPOINTS.len()]
}

/// Whether a chunk goes through the overload for text,
pub fn is_text(chunk: u64) -> bool {
    chunk / TURN % 5 == 2
}

/// and whether it is one call of `ingest_batch`, or a call of `ingest` for each delivery.
pub fn is_batch(chunk: u64) -> bool {
    chunk / TURN % 2 == 1
}

/// The orders that a chunk makes: half of them before its deliveries, half after them, when events
/// wait already.
pub fn orders(chunk: u64) -> Vec<String> {
    (0..ORDERS).map(|n| format!("O{chunk}.{n}")).collect()
}

impl Plan {
    /// The body of a delivery; now and then that of an earlier one.
    fn body(&self, number: u64) -> Body {
        let chunk = number / CHUNK;
        let mut rng = self.random(number, 0);
        if rng.random_range(0..8) == 0 {
            let same_endpoint = chunk - (chunk / TURN).min(rng.random_range(0..4)) * TURN;
            let earlier = rng.random_range(same_endpoint * CHUNK..same_endpoint * CHUNK + CHUNK);
            if earlier < number {
                return self.body(earlier);
            }
        }
        let before = chunk.saturating_sub(SESSIONS);
        let known = [orders(chunk), orders(before), orders(before.saturating_sub(TURN))].concat();
        let unknown = (0..2).map(|n| format!("U{chunk}.{n}"));
        let names: Vec<String> = known.into_iter().chain(unknown).collect();
        body(&mut rng, endpoint(chunk), &names, &self.seeds, number)
    }

    fn random(&self, number: u64, stream: u64) -> Random {
        // Mixed, so that neighbouring seeds share nothing; seed_from_u64 mixes once more.
        Random::seed_from_u64(self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (number << 1 | stream))
    }

    pub fn delivery(&self, number: u64, now: i64) -> Delivery {
        let (endpoint, mut rng) = (endpoint(number / CHUNK), self.random(number, 1));
        let Body { bytes: mut payload, mut id } = self.body(number);
        if is_text(number / CHUNK) && (payload.contains(&0) || str::from_utf8(&payload).is_err()) {
            payload = String::from_utf8_lossy(&payload).replace('\0', " ").into_bytes();
            id = None;
        }
        let event_id = match (rng.random_range(0..40), &id) {
            (0, _) => Some(any_text(&mut rng, 300)),
            (1, _) => Some(format!("evt_{}", number / 2)),
            (2, _) => {
                Some(["", " ", "a b", "a\u{85}", "\u{feff}x"].choose(&mut rng).unwrap_or(&"").to_string())
            }
            (3..8, Some(id)) => Some(id.clone()),
            _ => None,
        };
        let authentic = rng.random_bool(0.53); // with those that are spoilt by their headers, a half
        let signature = signature(&mut rng, endpoint, &self.secret, &payload, now, authentic);
        let verdict = judge(endpoint.gateway, &self.secret, &payload, &signature, now);
        Delivery { number, event_id, payload, signature, verdict, id }
    }
}

/// What `ingest` answered.
#[derive(Debug)]
pub struct Answer {
    pub outcome: String,
    pub reason: Option<String>,
    pub http_status: i32,
    pub event_id: Option<String>,
    pub payload_sha256: Option<String>,
    pub first_outcome: Option<String>,
}

impl From<&Row> for Answer {
    fn from(row: &Row) -> Self {
        Answer {
            outcome: row.get("outcome"),
            reason: row.get("reason"),
            http_status: row.get("http_status"),
            event_id: row.get("event_id"),
            payload_sha256: row.get("payload_sha256"),
            first_outcome: row.get("first_outcome"),
        }
    }
}

/// Everything that may be answered, but for duplicates, which repeat the reason of the first.
pub const ANSWERS: &[(&str, &[&str])] = &[
    ("applied", &[""]),
    (
        "recorded",
        &["informational", "unmapped_type", "same_payment", "already_in_state", "stale", "test_mode"],
    ),
    ("parked", &["order_not_found"]),
    (
        "exception",
        &[
            "amount_mismatch",
            "currency_mismatch",
            "reference_mismatch",
            "second_payment",
            "reference_reused",
            "payload_unreadable",
        ],
    ),
    ("digest_conflict", &[""]),
    (
        "rejected",
        &[
            "signature_mismatch",
            "signature_malformed",
            "timestamp_out_of_tolerance",
            "event_id_malformed",
            "too_large",
            "event_id_mismatch",
        ],
    ),
];

fn is_identifier(text: &str) -> bool {
    (1..=255).contains(&text.len()) && !text.chars().any(|c| c.is_whitespace() || c.is_control())
}

impl Delivery {
    pub fn sha256(&self) -> [u8; 32] {
        Sha256::digest(&self.payload).into()
    }

    /// Says what is wrong with an answer. `before` is what the first delivery of these bytes was answered.
    pub fn check(
        &self,
        endpoint: &Endpoint,
        answer: &Answer,
        before: Option<&str>,
    ) -> Result<(), &'static str> {
        let ok = |holds: bool, fault| if holds { Ok(()) } else { Err(fault) };
        let outcome = answer.outcome.as_str();
        let reason = answer.reason.as_deref().unwrap_or_default();
        let rejected = |status, reasons: &[&str]| {
            ok(
                outcome == "rejected" && reasons.contains(&reason) && answer.http_status == status,
                "not rejected as it should be",
            )
        };
        if self.payload.len() > endpoint.max_payload_bytes {
            ok(answer.payload_sha256.is_none(), "a digest of what is too large to look at")?;
            return rejected(413, &["too_large"]);
        }
        ok(answer.payload_sha256 == Some(hex::encode(self.sha256())), "not the digest of the bytes given")?;
        if self.event_id.as_deref().is_some_and(|id| !is_identifier(id)) {
            return rejected(400, &["event_id_malformed"]);
        }
        match self.verdict {
            Verdict::Forged => return rejected(401, &["signature_mismatch", "signature_malformed"]),
            Verdict::Expired => return rejected(401, &["timestamp_out_of_tolerance"]),
            Verdict::Authentic => {}
        }
        if outcome == "rejected" {
            ok(
                endpoint.id_signed
                    && self.event_id.is_some()
                    && (self.id.is_none() || self.id != self.event_id),
                "an authentic event is rejected",
            )?;
            return rejected(400, &["event_id_mismatch"]);
        }
        ok(answer.http_status == 200, "an authentic event is not answered 200")?;
        if let Some(id) = &self.id {
            // An id that nothing vouches for need not be the one given.
            let agrees = !endpoint.id_signed || self.event_id.as_ref().is_none_or(|given| given == id);
            ok(agrees, "another event id is not noticed")?;
            ok(answer.event_id.as_ref() == Some(id), "not the event's id")?;
            ok(reason != "payload_unreadable", "a well-formed event is unreadable")?;
        }
        let Some(before) = before else {
            let known = ANSWERS.iter().any(|(word, reasons)| *word == outcome && reasons.contains(&reason));
            ok(known, "not in the table of outcomes, or a first delivery is a duplicate")?;
            ok(outcome != "digest_conflict" || endpoint.id_signed, "a conflict where no id is signed")?;
            return ok(
                outcome == "digest_conflict" || answer.first_outcome.as_deref() == Some(outcome),
                "not the first outcome",
            );
        };
        ok(outcome == "duplicate", "a redelivery is no duplicate")?;
        ok(answer.first_outcome.as_deref() == Some(before), "the first outcome has changed")
    }
}
