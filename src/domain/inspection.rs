//! What the verifier saw of a delivery, step by step, for a person who wonders why it was refused.
//!
//! Never holds a secret, nor the signature that would have been right.

mod bodies;

use serde_json::{Value as Json, json};

use bodies::bodies;

use super::event::{self, Event, Unreadable};
use super::gateway::Gateway;
use super::money::Exponents;
use super::place::Request;
use super::signature::{AgeCheck, Delivery, Secret, Verdict, digest, verify};

/// A secret that may have signed the delivery, and what it is.
pub struct Candidate<'a> {
    /// Its text.
    pub text: &'a str,
    /// Why a match with it is a mistake; `None`: it is one of the source's active secrets.
    pub mistake: Option<Mistake>,
}

/// A usual mistake, and how it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mistake {
    /// A word for programs.
    pub name: &'static str,
    /// A sentence for people.
    pub sentence: &'static str,
}

/// A match with the secret of another source.
pub const OTHER_SOURCE: Mistake = Mistake {
    name: "secret_of_another_source",
    sentence: "It is signed with the secret of another source of this tenant, perhaps of the other mode (test or live).",
};

/// A match with a secret that is not valid any longer.
pub const RETIRED_SECRET: Mistake = Mistake {
    name: "secret_retired",
    sentence: "It is signed with a secret of this source that was retired before that moment.",
};

const TRIMMED_SECRET: Mistake = Mistake {
    name: "secret_with_white_space",
    sentence: "The secret was stored with white space around it, which is not part of it at the gateway.",
};

const SECRET_AS_TEXT: Mistake = Mistake {
    name: "secret_encoding",
    sentence: "It matches when the secret is read in another encoding (text, base64 or hexadecimal): the definition's \"key\" is not what the sender does.",
};

const WRONG_HEADER: Mistake = Mistake {
    name: "wrong_header",
    sentence: "The signature that matches is in another header than the one that was used.",
};

/// Inspects one delivery: `verdict` and `fields` first, then what led to them.
///
/// `now_unix_s` is the moment by which it is judged, in unix seconds. `pause` is called before each
/// pass over the body: the place to end a call that takes too long.
#[must_use]
pub fn inspect(
    gateway: &Gateway,
    delivery: &Delivery<'_>,
    candidates: &[Candidate<'_>],
    now_unix_s: i64,
    age: AgeCheck,
    exponents: &Exponents,
    pause: &dyn Fn(),
) -> Json {
    let active = candidates.iter().filter(|candidate| candidate.mistake.is_none());
    let secrets = active.filter_map(|candidate| gateway.scheme().secret(candidate.text).ok()).collect();
    let inspection = Inspection { gateway, candidates, secrets, now_unix_s, age, pause };
    let fields_of = |body: &[u8]| {
        pause();
        let request = Request { body, headers: delivery.headers, parameters: delivery.parameters };
        fields(&event::read(gateway, request, exponents))
    };
    let report = |verdict: Verdict, body: &[u8]| {
        let mut report = inspection.report(verdict, &Delivery { body, ..*delivery });
        report["fields"] = fields_of(body);
        report["payload_sha256"] = hex::encode(digest(body)).into();
        report
    };
    match gateway.items(delivery.body) {
        None => report(inspection.verdict(delivery), delivery.body),
        Some(Err(why)) if gateway.signs_items() => report(Verdict::Malformed(why), delivery.body),
        Some(Err(_)) => report(inspection.verdict(delivery), delivery.body),
        Some(Ok(items)) => {
            let whole = (!gateway.signs_items()).then(|| inspection.verdict(delivery));
            let verdict_of = |item: &[u8]| {
                whole.unwrap_or_else(|| inspection.verdict(&Delivery { body: item, ..*delivery }))
            };
            let verdicts: Vec<Verdict> = items.iter().map(|item| verdict_of(item)).collect();
            let worst = (0..items.len()).min_by_key(|at| rank(&verdicts[*at])).unwrap_or_default();
            let mut report = match gateway.signs_items() {
                true => report(verdicts[worst], items[worst]),
                false => inspection.report(verdicts[worst], delivery),
            };
            let of_items: Vec<Json> = items
                .iter()
                .zip(&verdicts)
                .map(|(item, verdict)| {
                    json!({
                        "verdict": word(*verdict),
                        "fields": fields_of(item),
                        "payload_sha256": hex::encode(digest(item)),
                    })
                })
                .collect();
            report["fields"] = of_items.first().map_or(Json::Null, |first| first["fields"].clone());
            report["payload_sha256"] = hex::encode(digest(delivery.body)).into();
            report["bundled_events"] = of_items.into();
            report
        }
    }
}

struct Inspection<'a> {
    gateway: &'a Gateway,
    candidates: &'a [Candidate<'a>],
    /// The active ones.
    secrets: Vec<Secret>,
    now_unix_s: i64,
    age: AgeCheck,
    pause: &'a dyn Fn(),
}

impl Inspection<'_> {
    fn verdict(&self, delivery: &Delivery<'_>) -> Verdict {
        self.verdict_with(delivery, &self.secrets)
    }

    fn verdict_with(&self, delivery: &Delivery<'_>, secrets: &[Secret]) -> Verdict {
        (self.pause)();
        verify(self.gateway.scheme(), delivery, secrets, self.now_unix_s, self.age)
    }

    fn report(&self, verdict: Verdict, delivery: &Delivery<'_>) -> Json {
        let scheme = self.gateway.scheme();
        let verdict = match verdict {
            Verdict::Mismatch if self.secrets.is_empty() => None,
            verdict => Some(verdict),
        };
        let mut report = json!({
            "verdict": verdict.map_or("malformed", word),
            "fields": Json::Null,
            "covers_body": self.gateway.covers_body(),
            "id_is_signed": self.gateway.id_is_signed(),
            "active_secrets": self.secrets.len(),
            "what_it_does_not_cover": self.gateway.remarks(),
        });
        match verdict {
            None => report["malformed_because"] = "the source has no active secret".into(),
            Some(Verdict::Malformed(why)) => report["malformed_because"] = why.to_string().into(),
            Some(_) => {}
        }
        let saw = scheme.with_sent(delivery, |sent| {
            let signed_texts: Vec<Json> = sent
                .signed_texts()
                .map(|(bytes, sha256)| json!({"bytes": bytes, "sha256": hex::encode(sha256)}))
                .collect();
            let mut saw = json!({
                "signatures_sent": sent.candidates_sent,
                "signatures_decoded": sent.candidates.len(),
                "signed_texts": signed_texts,
            });
            if let Some((signed, tolerance)) =
                sent.timestamp.and_then(|number| scheme.timestamp_seconds(number))
            {
                saw["timestamp"] = json!({
                    "signed_unix_s": signed,
                    "age_s": i128::from(self.now_unix_s) - i128::from(signed),
                    "tolerance_past_s": tolerance.past_s,
                    "tolerance_future_s": tolerance.future_s,
                });
            }
            saw
        });
        if let (Ok(Json::Object(saw)), Json::Object(report)) = (saw, &mut report) {
            report.extend(saw);
        }
        let is_small = delivery.body.len() <= MAX_TRIED_BYTES;
        if is_small && (verdict == Some(Verdict::Mismatch) || verdict.is_none()) {
            let mistakes: Vec<Json> = self
                .mistakes(delivery)
                .into_iter()
                .map(|mistake| json!({"mistake": mistake.name, "what": mistake.sentence}))
                .collect();
            report["mistakes_found"] = mistakes.into();
        }
        report
    }

    /// Tries the usual mistakes; those that would make the signature match.
    fn mistakes(&self, delivery: &Delivery<'_>) -> Vec<Mistake> {
        let scheme = self.gateway.scheme();
        let matches = |delivery: &Delivery<'_>, secrets: &[Secret]| {
            matches!(self.verdict_with(delivery, secrets), Verdict::Valid { .. } | Verdict::Expired)
        };
        let secrets = self.secrets.as_slice();
        let mut found = Vec::new();
        for (mistake, body) in &bodies(delivery.body) {
            if matches(&Delivery { body, ..*delivery }, secrets) && !found.contains(mistake) {
                found.push(*mistake);
            }
        }
        for candidate in self.candidates {
            let with = |text: &str| scheme.secret(text).is_ok_and(|secret| matches(delivery, &[secret]));
            match candidate.mistake {
                Some(mistake) if with(candidate.text) => found.push(mistake),
                Some(_) => {}
                None => {
                    if candidate.text.trim() != candidate.text && with(candidate.text.trim()) {
                        found.push(TRIMMED_SECRET);
                    }
                    if scheme
                        .other_readings(candidate.text)
                        .iter()
                        .any(|secret| matches(delivery, std::slice::from_ref(secret)))
                    {
                        found.push(SECRET_AS_TEXT);
                    }
                }
            }
        }
        let headers = delivery.headers.into_iter().flat_map(|headers| headers.values());
        if headers.take(MAX_HEADERS_TRIED).any(|value| {
            Some(value) != delivery.signature
                && matches(&Delivery { signature: Some(value), ..*delivery }, secrets)
        }) {
            found.push(WRONG_HEADER);
        }
        found.dedup();
        found
    }
}

/// Longest body, in bytes, with which mistakes are tried; each costs a pass over it.
const MAX_TRIED_BYTES: usize = 1024 * 1024;

/// Most headers whose value is tried as the signature.
const MAX_HEADERS_TRIED: usize = 64;

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Valid { .. } => "valid",
        Verdict::Mismatch => "invalid",
        Verdict::Expired => "expired",
        Verdict::Malformed(_) => "malformed",
    }
}

/// Worse verdicts first.
fn rank(verdict: &Verdict) -> u8 {
    match verdict {
        Verdict::Malformed(_) => 0,
        Verdict::Mismatch => 1,
        Verdict::Expired => 2,
        Verdict::Valid { .. } => 3,
    }
}

fn fields(read: &Result<Event, Unreadable>) -> Json {
    let event = match read {
        Ok(event) => event,
        Err(unreadable) => {
            return json!({"unreadable": unreadable.to_string(), "event_id": unreadable.event_id});
        }
    };
    let references: serde_json::Map<String, Json> =
        event.references.iter().map(|r| (r.kind.clone(), r.value.clone().into())).collect();
    json!({
        "event_id": event.event_id,
        "event_type": event.event_type,
        "kind": event.kind.map(|kind| kind.as_str()),
        "order_reference": event.order_reference,
        "gateway_order_id": event.gateway_order_id,
        "merchant_id": event.merchant_id,
        "amount_minor": event.amount_minor,
        "currency": event.currency.as_ref().map(|currency| currency.as_str()),
        "bank_reference": event.bank_reference,
        "references": references,
        "event_time_unix_us": event.event_time_us,
        "live_mode": event.live_mode,
        "is_thin": event.is_thin,
    })
}
