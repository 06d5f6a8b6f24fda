//! What the verifier saw of a delivery, step by step, for a person who wonders why it was refused.
//!
//! Never holds a secret, nor the signature that would have been right.

use serde_json::{Value as Json, json};

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

const BODY_MISTAKES: [Mistake; 4] = [
    Mistake {
        name: "body_trimmed",
        sentence: "It matches with a line feed at the end of the body: it was lost before the body came here.",
    },
    Mistake {
        name: "body_with_newline",
        sentence: "It matches without the white space at the end of the body: that was added before the body came here.",
    },
    Mistake {
        name: "body_line_ends",
        sentence: "It matches with other line ends (CR LF for LF, or the other way round): they were changed before the body came here.",
    },
    Mistake {
        name: "body_reserialised",
        sentence: "It matches when the JSON is written anew: the body was parsed and serialised before it came here. Pass the exact bytes of the request.",
    },
];

/// Inspects one delivery: `verdict` and `fields` first, then what led to them.
///
/// `now_unix_s` is the moment by which it is judged, in unix seconds.
#[must_use]
pub fn inspect(
    gateway: &Gateway,
    delivery: &Delivery<'_>,
    candidates: &[Candidate<'_>],
    now_unix_s: i64,
    age: AgeCheck,
    exponents: &Exponents,
) -> Json {
    let inspection = Inspection { gateway, candidates, now_unix_s, age };
    let fields_of = |body: &[u8]| {
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
    now_unix_s: i64,
    age: AgeCheck,
}

impl Inspection<'_> {
    fn secrets(&self) -> Vec<Secret> {
        let active = self.candidates.iter().filter(|candidate| candidate.mistake.is_none());
        active.filter_map(|candidate| self.gateway.scheme().secret(candidate.text).ok()).collect()
    }

    fn verdict(&self, delivery: &Delivery<'_>) -> Verdict {
        self.verdict_with(delivery, &self.secrets())
    }

    fn verdict_with(&self, delivery: &Delivery<'_>, secrets: &[Secret]) -> Verdict {
        verify(self.gateway.scheme(), delivery, secrets, self.now_unix_s, self.age)
    }

    fn report(&self, verdict: Verdict, delivery: &Delivery<'_>) -> Json {
        let scheme = self.gateway.scheme();
        let secrets = self.secrets();
        let verdict = match verdict {
            Verdict::Mismatch if secrets.is_empty() => None,
            verdict => Some(verdict),
        };
        let mut report = json!({
            "verdict": verdict.map_or("malformed", word),
            "fields": Json::Null,
            "covers_body": self.gateway.covers_body(),
            "id_is_signed": self.gateway.id_is_signed(),
            "active_secrets": secrets.len(),
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
                .mistakes(delivery, &secrets)
                .into_iter()
                .map(|mistake| json!({"mistake": mistake.name, "what": mistake.sentence}))
                .collect();
            report["mistakes_found"] = mistakes.into();
        }
        report
    }

    /// Tries the usual mistakes; those that would make the signature match.
    fn mistakes(&self, delivery: &Delivery<'_>, secrets: &[Secret]) -> Vec<Mistake> {
        let scheme = self.gateway.scheme();
        let matches = |delivery: &Delivery<'_>, secrets: &[Secret]| {
            matches!(self.verdict_with(delivery, secrets), Verdict::Valid { .. } | Verdict::Expired)
        };
        let mut found = Vec::new();
        let bodies = bodies(delivery.body);
        for (mistake, body) in &bodies {
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

/// The body as it may have been before something changed it on its way.
fn bodies(body: &[u8]) -> Vec<(Mistake, Vec<u8>)> {
    let [trimmed, with_newline, line_ends, reserialised] = BODY_MISTAKES;
    let mut bodies = vec![
        (trimmed, [body, b"\n"].concat()),
        (trimmed, [body, b"\r\n"].concat()),
        (with_newline, body.trim_ascii_end().to_vec()),
    ];
    let lf: Vec<u8> = body.iter().copied().filter(|byte| *byte != b'\r').collect();
    let crlf: Vec<u8> =
        lf.iter().flat_map(|byte| if *byte == b'\n' { vec![b'\r', b'\n'] } else { vec![*byte] }).collect();
    bodies.extend([(line_ends, lf), (line_ends, crlf)]);
    bodies.extend(respaced(body).into_iter().map(|body| (reserialised, body)));
    bodies.retain(|(_, changed)| changed != body);
    bodies
}

/// A JSON body with the white space of other serialisers, and with other escapes; what stands in
/// strings and the digits of numbers stay.
fn respaced(body: &[u8]) -> Vec<Vec<u8>> {
    let Ok(text) = std::str::from_utf8(body) else { return Vec::new() };
    if serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() {
        return Vec::new();
    }
    let compact = spaced(text, "", "");
    let spacious = spaced(text, " ", " ");
    let mut bodies = vec![compact.clone(), spacious.clone(), indented(text, 2), indented(text, 4)];
    for form in [compact, spacious] {
        bodies.push(form.replace("\\/", "/"));
        bodies.push(form.replace("\\/", "/").replace('/', "\\/"));
        bodies.push(escaped(&form));
        bodies.push(unescaped(&form));
    }
    bodies.into_iter().map(String::into_bytes).collect()
}

/// The tokens of a JSON text: strings whole, every other byte that is no white space by itself.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches([' ', '\t', '\n', '\r']);
        let end = match rest.as_bytes().first()? {
            b'"' => {
                let mut escaped = false;
                let inside = rest[1..].bytes().position(|byte| {
                    let ends = byte == b'"' && !escaped;
                    escaped = byte == b'\\' && !escaped;
                    ends
                });
                inside.map_or(rest.len(), |at| at + 2)
            }
            b'{' | b'}' | b'[' | b']' | b',' | b':' => 1,
            _ => rest.find(['{', '}', '[', ']', ',', ':', ' ', '\t', '\n', '\r']).unwrap_or(rest.len()),
        };
        let (token, behind) = rest.split_at(end);
        rest = behind;
        Some(token)
    })
}

fn spaced(text: &str, after_comma: &str, after_colon: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for token in tokens(text) {
        out.push_str(token);
        match token {
            "," => out.push_str(after_comma),
            ":" => out.push_str(after_colon),
            _ => {}
        }
    }
    out
}

fn indented(text: &str, width: usize) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let mut depth = 0_usize;
    let mut before = "";
    for token in tokens(text) {
        let newline = |out: &mut String, depth: usize| {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', depth * width));
        };
        let closes = matches!(token, "}" | "]");
        let opened = matches!(before, "{" | "[");
        if closes {
            depth = depth.saturating_sub(1);
        }
        if (opened && !closes) || before == "," || (closes && !opened) {
            newline(&mut out, depth);
        }
        out.push_str(token);
        if token == ":" {
            out.push(' ');
        }
        if matches!(token, "{" | "[") {
            depth += 1;
        }
        before = token;
    }
    out
}

/// Every character beyond ASCII as `\uXXXX`.
fn escaped(text: &str) -> String {
    let mut units = [0; 2];
    text.chars()
        .map(|character| match character.is_ascii() {
            true => character.to_string(),
            false => character.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
        })
        .collect()
}

/// Every string with as few escapes as it can have.
fn unescaped(text: &str) -> String {
    tokens(text)
        .map(|token| match serde_json::from_str::<String>(token) {
            Ok(string) => serde_json::to_string(&string).unwrap_or_else(|_| token.to_owned()),
            Err(_) => token.to_owned(),
        })
        .collect()
}

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
