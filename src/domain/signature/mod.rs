//! Authenticates a delivery: what the gateway signs over the exact bytes, and the age of the
//! timestamp that it covers.
//!
//! Nothing here keeps a signature, or tells anybody more than a [`Verdict`]. Of the body nothing
//! is parsed but what the gateway's own signed text is made of.

mod format;
mod headers;
mod malformed;
mod secret;
mod template;
mod timestamp;

use std::borrow::Cow;
use std::fmt;

use base64ct::{Base64, Base64Url, Encoding as _};
use serde::Deserialize;
use sha2::{Digest, Sha256};

pub use format::MAX_SIGNATURE_BYTES;
pub(crate) use format::{Format, Key, Pairs, Prefix, Repeated};
pub use headers::{Headers, MAX_HEADER_BYTES};
pub use malformed::Malformed;
pub(crate) use secret::{Hash, KeyEncoding, KeyForm, Method};
pub use secret::{MIN_SECRET_BYTES, Secret, SecretFault};
pub(crate) use template::{EachPart, FieldList, FieldsOf, Filter, Part, Placeholder, Template, What};
use template::{Filling, Piece};
use timestamp::Timestamp;
pub(crate) use timestamp::{From as TimestampFrom, Rule as TimestampRule, Tolerance, Unit};

use super::json::Pointers;
use super::place::{Needs, Parameters, Place, Reading, Request};

/// Most candidates that are compared where each costs a pass over the signed text.
const MAX_COSTLY_CANDIDATES: usize = 8;

/// How a signature is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// Hexadecimal digits in either case.
    Hex,
    /// Lower-case hexadecimal digits only, for gateways whose own libraries compare text.
    HexLower,
    /// Standard base64 with its padding.
    Base64,
    /// The URL-safe alphabet, padded or not.
    Base64Url,
    /// The text itself.
    Text,
}

impl Encoding {
    fn decode(self, text: &str) -> Option<Vec<u8>> {
        match self {
            Self::HexLower if text.bytes().any(|byte| byte.is_ascii_uppercase()) => None,
            Self::Hex | Self::HexLower => hex::decode(text).ok(),
            Self::Base64 => Base64::decode_vec(text).ok(),
            Self::Base64Url => {
                use base64ct::Base64UrlUnpadded;
                Base64Url::decode_vec(text).or_else(|_| Base64UrlUnpadded::decode_vec(text)).ok()
            }
            Self::Text => Some(text.as_bytes().to_vec()),
        }
    }
}

/// What a signature is that cannot be decoded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Undecodable {
    /// A wrong signature like any other.
    #[default]
    Mismatch,
    /// Not a signature at all.
    Malformed,
}

/// The only bytes that may stand at a place.
#[derive(Debug)]
pub(crate) struct Characters {
    pub(crate) place: Place,
    pub(crate) allowed: Box<[bool; 256]>,
}

/// The part of a gateway definition that concerns authenticity.
#[derive(Debug)]
pub struct Scheme {
    pub(crate) method: Method,
    pub(crate) key: KeyEncoding,
    /// Any of these may be what was signed; none where the signature is a mere credential.
    pub(crate) signed_texts: Vec<Template>,
    pub(crate) characters: Vec<Characters>,
    pub(crate) id: Vec<Place>,
    pub(crate) timestamp: Option<TimestampRule>,
    pub(crate) signature: Vec<Place>,
    pub(crate) format: Format,
    pub(crate) encoding: Encoding,
    pub(crate) undecodable: Undecodable,
    pub(crate) pointers: Pointers,
    pub(crate) needs: Needs,
}

/// One delivery as it came from outside.
#[derive(Clone, Copy)]
pub struct Delivery<'a> {
    /// The exact bytes of the request body, or of one item of it.
    pub body: &'a [u8],
    /// The signature header's value where the caller has taken it out of the request already.
    pub signature: Option<&'a str>,
    /// The request's headers.
    pub headers: Option<&'a Headers>,
    /// What the source is configured with.
    pub parameters: &'a Parameters,
}

impl fmt::Debug for Delivery<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Delivery({} bytes, ..)", self.body.len())
    }
}

impl<'a> Delivery<'a> {
    pub(crate) fn request(&self) -> Request<'a> {
        Request { body: self.body, headers: self.headers, parameters: self.parameters }
    }
}

/// The result of [`verify`]. When several apply, the first in this order is given: malformed,
/// mismatch, expired, valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Authentic, and recent where the gateway signs a timestamp.
    Valid {
        /// The signed timestamp in unix seconds, where there is one.
        timestamp: Option<i64>,
    },
    /// Well-formed, but no secret gives any of the signatures sent.
    Mismatch,
    /// Authentic, but the timestamp is further from now than the tolerance, on either side.
    Expired,
    /// There is nothing to compare.
    Malformed(Malformed),
}

/// SHA-256 of the exact bytes of a body: its identity, and the evidence of what was received.
#[must_use]
pub fn digest(body: &[u8]) -> [u8; 32] {
    Sha256::digest(body).into()
}

/// Which ages of a timestamp pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgeCheck {
    /// As the definition says.
    Definition,
    /// This many seconds to either side instead of the definition's.
    Seconds(u32),
    /// Every age: for deliveries that are replayed after an outage.
    Skip,
}

/// Judges `delivery` by the rules of `scheme`.
///
/// `secrets` are all that are active; without any, nothing is valid. `now_unix_s` is the moment of
/// receipt in unix seconds. A timestamp exactly as far away as `age` allows is accepted.
///
/// Each secret costs one pass over the signed text, and one per candidate (at most eight) where
/// secrets are public keys. MACs are compared in constant time, every one with every candidate, so
/// the time taken tells nothing about where or which one differs.
#[must_use]
pub fn verify<'a>(
    scheme: &Scheme,
    delivery: &Delivery<'_>,
    secrets: impl IntoIterator<Item = &'a Secret>,
    now_unix_s: i64,
    age: AgeCheck,
) -> Verdict {
    let judged = scheme.with_sent(delivery, |sent| {
        let mut matched = false;
        for secret in secrets {
            for pieces in &sent.signed_texts {
                matched |= secret.signed(scheme.method, pieces, &sent.candidates); // no short circuit
            }
        }
        match matched {
            true => scheme.judge_age(sent.timestamp, now_unix_s, age),
            false => Verdict::Mismatch,
        }
    });
    judged.unwrap_or_else(Verdict::Malformed)
}

/// What a delivery sent, ready to be compared.
pub(crate) struct Sent<'a> {
    /// Decoded signatures.
    pub(crate) candidates: Vec<Vec<u8>>,
    /// How many there were before they were decoded.
    pub(crate) candidates_sent: usize,
    /// In the scheme's unit.
    pub(crate) timestamp: Option<i64>,
    signed_texts: Vec<Vec<Piece<'a>>>,
}

impl Sent<'_> {
    /// Length in bytes and SHA-256 of each signed text, a secret in it left out.
    pub(crate) fn signed_texts(&self) -> impl Iterator<Item = (usize, [u8; 32])> {
        self.signed_texts.iter().map(|pieces| {
            let (mut length, mut digest) = (0, Sha256::new());
            secret::each_part(pieces, b"", |part| {
                length += part.len();
                digest.update(part);
            });
            (length, digest.finalize().into())
        })
    }
}

impl Scheme {
    /// Prepares the secret `text`.
    ///
    /// # Errors
    /// [`SecretFault`] where it cannot be one of this gateway's.
    pub fn secret(&self, text: &str) -> Result<Secret, SecretFault> {
        Secret::prepare(self.method, &self.key, text)
    }

    /// Whether secrets are public keys.
    #[must_use]
    pub fn is_asymmetric(&self) -> bool {
        self.method.is_asymmetric()
    }

    /// The parameters without which nothing can be verified.
    pub fn parameters(&self) -> impl Iterator<Item = &str> {
        let key = match &self.format {
            Format::Pairs(Pairs { key: Key::Parameter(name), .. }) => Some(name.as_ref()),
            _ => None,
        };
        self.signed_texts.iter().flat_map(Template::parameters).chain(key)
    }

    /// The secret read in the other encodings that gateways use, for whoever looks for a mistake.
    pub(crate) fn other_readings(&self, text: &str) -> Vec<Secret> {
        let forms = [KeyForm::Utf8, KeyForm::Base64, KeyForm::Hex].into_iter();
        let prefixes = [None, Some("whsec_".into())];
        forms
            .flat_map(|form| prefixes.clone().map(|prefix| KeyEncoding { prefix, form }))
            .filter_map(|encoding| Secret::prepare(self.method, &encoding, text).ok())
            .collect()
    }

    /// A signed number in unix seconds, and how far it may be from now.
    pub(crate) fn timestamp_seconds(&self, number: i64) -> Option<(i64, Tolerance)> {
        self.timestamp.as_ref().map(|rule| (rule.unit.seconds(number), rule.tolerance))
    }

    /// Takes the delivery apart and hands what was sent to `judge`.
    pub(crate) fn with_sent<T>(
        &self,
        delivery: &Delivery<'_>,
        judge: impl FnOnce(&Sent<'_>) -> T,
    ) -> Result<T, Malformed> {
        // A signature outside the body is looked for before anything is parsed.
        let given = delivery.signature.map(Cow::Borrowed);
        let outside = match given {
            Some(text) => Some(text),
            None if self.signature.iter().any(Place::is_in_body) => None,
            None => {
                let reading = Reading::of(delivery.request(), &self.pointers, Needs::of(&self.signature))?;
                Some(
                    first_text(&reading, &self.signature)?
                        .map(|text| text.into_owned().into())
                        .ok_or(Malformed::NoSignature)?,
                )
            }
        };
        let reading = Reading::of(delivery.request(), &self.pointers, self.needs)?;
        let text = match outside {
            Some(text) => text,
            None => first_text(&reading, &self.signature)?.ok_or(Malformed::NoSignature)?,
        };
        let parameter =
            |name: &str| delivery.parameters.get(name).map(String::as_str).filter(|text| !text.is_empty());
        let parsed = self.format.parse(&text, parameter)?;
        let timestamp_text;
        let timestamp = match &self.timestamp {
            None => None,
            Some(TimestampRule { from: TimestampFrom::Pair, repeated, unit, .. }) => {
                Some(Timestamp::choose(&parsed.timestamps, *repeated, *unit)?)
            }
            Some(TimestampRule { from: TimestampFrom::Places(places), unit, .. }) => {
                timestamp_text = first_text(&reading, places)?.ok_or(Malformed::NoTimestamp)?;
                Some(Timestamp::parse(&timestamp_text, *unit)?)
            }
        };
        if parsed.candidates.is_empty() {
            return Err(Malformed::NoCandidate);
        }
        let decode = |text: &&str| match self.method {
            Method::Basic => basic_credentials(text).map(Some),
            method => {
                let fits =
                    |bytes: &Vec<u8>| method.signature_length().is_none_or(|length| bytes.len() == length);
                Ok(self.encoding.decode(text).filter(fits))
            }
        };
        // Nobody sends many, and with these methods each costs a pass over the text.
        let most = if self.method.hashes_once() { usize::MAX } else { MAX_COSTLY_CANDIDATES };
        let mut candidates = Vec::with_capacity(parsed.candidates.len().min(most));
        for candidate in parsed.candidates.iter().take(most) {
            candidates.extend(decode(candidate)?);
        }
        if candidates.is_empty() && self.undecodable == Undecodable::Malformed {
            return Err(Malformed::Undecodable);
        }
        for Characters { place, allowed } in &self.characters {
            let text =
                reading.get(place)?.and_then(|value| value.into_text()).ok_or(Malformed::MissingPart)?;
            if text.bytes().any(|byte| !allowed[usize::from(byte)]) {
                return Err(Malformed::ForbiddenCharacter);
            }
        }
        let id = match self.id.is_empty() {
            true => Cow::Borrowed(""),
            false => first_text(&reading, &self.id)?.ok_or(Malformed::MissingPart)?,
        };
        let filling = Filling {
            body: delivery.body,
            reading: &reading,
            timestamp: timestamp.map_or("", |timestamp| timestamp.text),
            id: &id,
        };
        let mut signed_texts = Vec::with_capacity(self.signed_texts.len());
        for template in &self.signed_texts {
            signed_texts.push(template.fill(&filling)?);
        }
        if self.method.is_credential() {
            signed_texts.push(Vec::new());
        }
        Ok(judge(&Sent {
            candidates,
            candidates_sent: parsed.candidates.len(),
            timestamp: timestamp.map(|timestamp| timestamp.number),
            signed_texts,
        }))
    }

    pub(crate) fn judge_age(&self, timestamp: Option<i64>, now_unix_s: i64, age: AgeCheck) -> Verdict {
        let (Some(rule), Some(number)) = (&self.timestamp, timestamp) else {
            return Verdict::Valid { timestamp: None };
        };
        let tolerance = match age {
            AgeCheck::Definition => rule.tolerance,
            AgeCheck::Seconds(seconds) => Tolerance::both(seconds),
            AgeCheck::Skip => Tolerance::default(),
        };
        match tolerance.allows(number, rule.unit, now_unix_s) {
            true => Verdict::Valid { timestamp: Some(rule.unit.seconds(number)) },
            false => Verdict::Expired,
        }
    }
}

/// The first of `places` at which a text was sent.
fn first_text<'r>(reading: &'r Reading<'_>, places: &'r [Place]) -> Result<Option<Cow<'r, str>>, Malformed> {
    for place in places {
        if let Some(value) = reading.get(place)? {
            return Ok(value.into_text());
        }
    }
    Ok(None)
}

/// `user:password` of HTTP Basic credentials (RFC 7617); the name of the scheme in any case.
fn basic_credentials(text: &str) -> Result<Vec<u8>, Malformed> {
    let (scheme, credentials) = text.split_once(' ').ok_or(Malformed::NoCandidate)?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(Malformed::NoCandidate);
    }
    Base64::decode_vec(credentials.trim()).map_err(|_| Malformed::Undecodable)
}
