//! Authenticates a delivery: the gateway's MAC (HMAC, RFC 2104) over the exact bytes, and the age
//! of the timestamp it covers.
//!
//! Nothing here reads the body, keeps a signature, or tells anybody more than a [`Verdict`].

mod header;
mod template;

use std::fmt;

use hmac::digest::CtOutput;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

pub(crate) use header::{Format, Timestamp};
pub use header::{Headers, MAX_HEADER_BYTES, MAX_SIGNATURE_BYTES, Malformed};
pub(crate) use template::Template;

type HmacSha256 = Hmac<Sha256>;

/// Shortest secret in bytes. Gateways give out 20 and more; less is a placeholder or a mistake,
/// and guessable either way.
pub const MIN_SECRET_BYTES: usize = 8;

/// Why a text is not accepted as a secret. The text itself is never repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretFault {
    /// Empty, or nothing but white space.
    Blank,
    /// Fewer than [`MIN_SECRET_BYTES`] bytes.
    TooShort,
}

impl fmt::Display for SecretFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Blank => "the secret is empty or blank",
            Self::TooShort => "the secret is shorter than 8 bytes",
        })
    }
}

impl std::error::Error for SecretFault {}

/// A signing secret, kept only as the MAC state keyed with it: a check costs no key schedule, and
/// there is no text to print.
#[derive(Clone)]
pub struct Secret(HmacSha256);

impl Secret {
    /// Prepares the secret `text` in the key encoding of `scheme`. Nothing is trimmed: a line
    /// feed at the end is part of the key.
    ///
    /// # Errors
    /// [`SecretFault`], so that nothing can be authenticated with a key that anybody knows.
    pub fn new(scheme: &Scheme, text: &str) -> Result<Self, SecretFault> {
        if text.trim().is_empty() {
            return Err(SecretFault::Blank);
        }
        if text.len() < MIN_SECRET_BYTES {
            return Err(SecretFault::TooShort);
        }
        let key = match scheme.key {
            KeyEncoding::Utf8 => text.as_bytes(),
        };
        let keyed = HmacSha256::new_from_slice(key);
        keyed.map(Self).map_err(|_| SecretFault::TooShort) // HMAC takes keys of any length
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// How the key is made from the text of a secret.
#[derive(Debug, Clone, Copy)]
pub(crate) enum KeyEncoding {
    /// The text's own bytes, any prefix included.
    Utf8,
}

/// How a MAC is written down.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Encoding {
    /// Hexadecimal digits in either case.
    Hex,
    /// Lower-case hexadecimal digits only, for gateways whose own libraries compare text.
    HexLower,
}

impl Encoding {
    fn decode(self, text: &str) -> Option<CtOutput<HmacSha256>> {
        let strict = matches!(self, Self::HexLower);
        if strict && text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return None;
        }
        let mut mac = [0; 32];
        hex::decode_to_slice(text, &mut mac).ok()?;
        Some(CtOutput::new(mac.into()))
    }
}

/// What it means when no candidate can be decoded.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Undecodable {
    /// A wrong signature like any other.
    Mismatch,
    /// Not a signature at all.
    Malformed,
}

/// The part of a gateway definition that concerns authenticity.
#[derive(Debug)]
pub struct Scheme {
    pub(crate) key: KeyEncoding,
    pub(crate) signed_text: Template,
    pub(crate) headers: Vec<String>,
    pub(crate) format: Format,
    pub(crate) encoding: Encoding,
    pub(crate) undecodable: Undecodable,
    /// Seconds to either side of now; used only when the format yields a timestamp.
    pub(crate) tolerance_s: u32,
}

/// One delivery as it came from outside.
#[derive(Clone, Copy)]
pub struct Delivery<'a> {
    /// The exact bytes of the request body.
    pub body: &'a [u8],
    /// The signature header's value where the caller has taken it out of the request already.
    pub signature: Option<&'a str>,
    /// The request's headers; looked at only when `signature` is `None`.
    pub headers: Option<&'a Headers>,
}

impl fmt::Debug for Delivery<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Delivery({} bytes, ..)", self.body.len())
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

/// Judges `delivery` by the rules of `scheme`.
///
/// `secrets` are all that are active; without any, nothing is valid. `now_unix_s` is the moment of
/// receipt in unix seconds. `tolerance_s`, in seconds, replaces the definition's own; a timestamp
/// exactly that far away is accepted.
///
/// Each secret costs one pass over the body. MACs are compared in constant time, every one with
/// every candidate, so the time taken tells nothing about where or which one differs.
#[must_use]
pub fn verify<'a>(
    scheme: &Scheme,
    delivery: &Delivery<'_>,
    secrets: impl IntoIterator<Item = &'a Secret>,
    now_unix_s: i64,
    tolerance_s: Option<u32>,
) -> Verdict {
    match verify_or_malformed(scheme, delivery, secrets, now_unix_s, tolerance_s) {
        Ok(verdict) => verdict,
        Err(why) => Verdict::Malformed(why),
    }
}

fn verify_or_malformed<'a>(
    scheme: &Scheme,
    delivery: &Delivery<'_>,
    secrets: impl IntoIterator<Item = &'a Secret>,
    now_unix_s: i64,
    tolerance_s: Option<u32>,
) -> Result<Verdict, Malformed> {
    let sent = scheme.format.parse(scheme.signature_text(delivery)?)?;
    let candidates: Vec<_> = sent.candidates.iter().filter_map(|text| scheme.encoding.decode(text)).collect();
    if candidates.is_empty() && matches!(scheme.undecodable, Undecodable::Malformed) {
        return Err(Malformed::Undecodable);
    }

    let signed_timestamp = sent.timestamp.map_or("", |timestamp| timestamp.text);
    let mut matched = false;
    for Secret(keyed) in secrets {
        let mut mac = keyed.clone();
        let feed = |part: &[u8]| mac.update(part);
        scheme.signed_text.feed(delivery.body, signed_timestamp, feed);
        let expected = mac.finalize(); // its `==` is constant-time
        for candidate in &candidates {
            matched |= expected == *candidate; // no short circuit
        }
    }
    if !matched {
        return Ok(Verdict::Mismatch);
    }

    let timestamp = sent.timestamp.map(|Timestamp { number, .. }| number);
    let tolerance_s = tolerance_s.unwrap_or(scheme.tolerance_s);
    Ok(match timestamp {
        Some(signed) if now_unix_s.abs_diff(signed) > u64::from(tolerance_s) => Verdict::Expired,
        _ => Verdict::Valid { timestamp },
    })
}

impl Scheme {
    /// The argument where there is one, else the first of the scheme's headers that was sent.
    fn signature_text<'a>(&self, delivery: &Delivery<'a>) -> Result<&'a str, Malformed> {
        if let Some(text) = delivery.signature {
            return Ok(text);
        }
        if let Some(headers) = delivery.headers {
            for name in &self.headers {
                if let Some(text) = headers.get(name)? {
                    return Ok(text);
                }
            }
        }
        Err(Malformed::NoSignature)
    }
}
