//! What a signature header says: candidate signatures and, for some gateways, a timestamp.

use std::fmt;

/// Longest signature text in bytes that is looked at. Hundreds of signatures fit.
pub const MAX_SIGNATURE_BYTES: usize = 64 * 1024;

/// Most bytes of header names and values together that are kept.
pub const MAX_HEADER_BYTES: usize = 128 * 1024;

/// The headers of one request. Names are compared without regard to ASCII case (RFC 9110,
/// section 5.1); values are kept as they are.
#[derive(Default)]
pub struct Headers {
    fields: Vec<(String, String)>,
    oversized: bool,
}

impl Headers {
    /// Keeps `fields` in their order. Beyond [`MAX_HEADER_BYTES`] nothing more is kept and every
    /// look-up fails, so that a flood of headers becomes a malformed delivery, not an error.
    pub fn new<N, V>(fields: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: Into<String>,
        V: Into<String>,
    {
        let mut headers = Self::default();
        let mut room = MAX_HEADER_BYTES;
        for (name, value) in fields {
            let (name, value) = (name.into(), value.into());
            match room.checked_sub(name.len().saturating_add(value.len())) {
                Some(left) => room = left,
                None => {
                    headers.oversized = true;
                    break;
                }
            }
            headers.fields.push((name, value));
        }
        headers
    }

    /// The value of the header `name`, `None` when it was not sent.
    ///
    /// # Errors
    /// [`Malformed::AmbiguousHeader`] when it was sent more than once with different values: who
    /// is to say which one the gateway wrote? [`Malformed::HeadersTooLarge`] after an overflow.
    pub fn get(&self, name: &str) -> Result<Option<&str>, Malformed> {
        if self.oversized {
            return Err(Malformed::HeadersTooLarge);
        }
        let mut values = self
            .fields
            .iter()
            .filter(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str());
        let first = values.next();
        if values.any(|other| Some(other) != first) {
            return Err(Malformed::AmbiguousHeader);
        }
        Ok(first)
    }
}

impl fmt::Debug for Headers {
    /// Names only: values hold signatures and whatever else was sent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.fields.iter().map(|(name, _)| name)).finish()
    }
}

/// Why a delivery cannot even be compared with a signature. Nothing that was sent is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// Neither the argument nor the headers hold a signature text, or it is empty.
    NoSignature,
    /// The signature text is longer than [`MAX_SIGNATURE_BYTES`].
    SignatureTooLong,
    /// The headers are larger than [`MAX_HEADER_BYTES`].
    HeadersTooLarge,
    /// A header that is needed was sent twice with different values.
    AmbiguousHeader,
    /// No signature of the version that the gateway's definition names.
    NoCandidate,
    /// The signature is not written in the definition's encoding, or has another length.
    Undecodable,
    /// The timestamp is missing.
    NoTimestamp,
    /// There is more than one timestamp.
    SeveralTimestamps,
    /// The timestamp is not made of plain ASCII digits, or does not fit 64 bits.
    BadTimestamp,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSignature => "there is no signature",
            Self::SignatureTooLong => "the signature text is longer than 64 KiB",
            Self::HeadersTooLarge => "the headers are larger than 128 KiB",
            Self::AmbiguousHeader => "a signed header was sent twice with different values",
            Self::NoCandidate => "there is no signature of the expected version",
            Self::Undecodable => "the signature is not in the expected encoding and length",
            Self::NoTimestamp => "there is no timestamp",
            Self::SeveralTimestamps => "there is more than one timestamp",
            Self::BadTimestamp => "the timestamp is not a plain number of the expected range",
        })
    }
}

impl std::error::Error for Malformed {}

/// How candidates and timestamp are laid out in the signature text.
#[derive(Debug)]
pub(crate) enum Format {
    /// The text is one signature, optionally behind a fixed prefix.
    Bare { optional_prefix: Option<Box<str>> },
    /// `key=value` pairs separated by commas, without white space; keys may repeat and unknown
    /// ones are ignored.
    Pairs { signature_key: Box<str>, timestamp_key: Option<Box<str>> },
}

/// A signature text taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parsed<'a> {
    pub(crate) candidates: Vec<&'a str>,
    pub(crate) timestamp: Option<Timestamp<'a>>,
}

/// A timestamp as it was sent, which is what was signed, and as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timestamp<'a> {
    pub(crate) text: &'a str,
    pub(crate) number: i64,
}

impl Format {
    pub(crate) fn parse<'a>(&self, text: &'a str) -> Result<Parsed<'a>, Malformed> {
        if text.is_empty() {
            return Err(Malformed::NoSignature);
        }
        if text.len() > MAX_SIGNATURE_BYTES {
            return Err(Malformed::SignatureTooLong);
        }
        match self {
            Self::Bare { optional_prefix } => {
                let stripped = optional_prefix.as_deref().and_then(|prefix| text.strip_prefix(prefix));
                Ok(Parsed { candidates: vec![stripped.unwrap_or(text)], timestamp: None })
            }
            Self::Pairs { signature_key, timestamp_key } => {
                parse_pairs(text, signature_key, timestamp_key.as_deref())
            }
        }
    }
}

fn parse_pairs<'a>(
    text: &'a str,
    signature_key: &str,
    timestamp_key: Option<&str>,
) -> Result<Parsed<'a>, Malformed> {
    let pairs = || text.split(',').filter_map(|pair| pair.split_once('='));
    let values = |wanted| pairs().filter(move |(key, _)| *key == wanted).map(|(_, v)| v);

    let timestamp = match timestamp_key {
        None => None,
        Some(key) => {
            let mut sent = values(key);
            let first = sent.next().ok_or(Malformed::NoTimestamp)?;
            if sent.next().is_some() {
                return Err(Malformed::SeveralTimestamps); // even equal ones: nobody sends that
            }
            Some(Timestamp::parse(first)?)
        }
    };
    let candidates: Vec<_> = values(signature_key).collect();
    if candidates.is_empty() {
        return Err(Malformed::NoCandidate);
    }
    Ok(Parsed { candidates, timestamp })
}

impl<'a> Timestamp<'a> {
    fn parse(text: &'a str) -> Result<Self, Malformed> {
        // i64::from_str alone would also take a sign.
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Malformed::BadTimestamp);
        }
        let number = text.parse().map_err(|_| Malformed::BadTimestamp)?;
        Ok(Self { text, number })
    }
}
