//! Why a delivery cannot even be compared with a signature.

use std::fmt;

use crate::domain::place::Unusable;

/// Why a delivery cannot even be compared with a signature. Nothing that was sent is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// Neither the argument nor the request hold a signature text, or it is empty.
    NoSignature,
    /// The signature text is longer than [`super::MAX_SIGNATURE_BYTES`].
    SignatureTooLong,
    /// The headers are larger than [`super::MAX_HEADER_BYTES`].
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
    /// The timestamp is not written as the definition says, or does not fit 64 bits.
    BadTimestamp,
    /// A signed header, the message id or a configured parameter is missing or empty.
    MissingPart,
    /// The signed text is made of fields of the body, and the body cannot be parsed.
    Unparsable,
    /// The signed text is made of fields, and one was sent twice.
    RepeatedField,
    /// A signed text holds a character that the gateway never sends there.
    ForbiddenCharacter,
    /// The body is not the bundle of items that the definition describes, or has none.
    NoItems,
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
            Self::BadTimestamp => "the timestamp is no plain number, or no RFC 3339, as the definition says",
            Self::MissingPart => "a header, an id or a parameter that is signed along is missing",
            Self::Unparsable => "the body cannot be parsed, and parts of it make the signed text",
            Self::RepeatedField => "a field was sent twice, and fields make the signed text",
            Self::ForbiddenCharacter => "a signed part holds a character that the gateway never sends",
            Self::NoItems => "the body is not the bundle of items that the gateway sends",
        })
    }
}

impl std::error::Error for Malformed {}

impl From<Unusable> for Malformed {
    fn from(why: Unusable) -> Self {
        match why {
            Unusable::Json(_) => Self::Unparsable,
            Unusable::Repeated => Self::RepeatedField,
            Unusable::Headers(why) => why,
        }
    }
}
