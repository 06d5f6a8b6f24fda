//! The shape of a gateway definition as it is written in JSON. Unknown and repeated fields are
//! refused, so that a misspelt rule cannot pass for one that was left out.

use serde::Deserialize;

use crate::domain::kind::Kind;

/// One gateway: how its deliveries are authenticated and where its events hold what.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Definition {
    /// One line for people.
    pub(super) description: String,
    pub(super) verify: Verify,
    pub(super) event: Event,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Verify {
    pub(super) method: Method,
    pub(super) key: Key,
    /// Literal text with `{body}` exactly once and `{timestamp}` where the gateway signs one.
    pub(super) signed_text: String,
    pub(super) signature: Signature,
    pub(super) timestamp: Option<Timestamp>,
}

#[derive(Debug, Deserialize)]
pub(super) enum Method {
    /// HMAC with SHA-256 (RFC 2104, RFC 6234).
    #[serde(rename = "hmac-sha256")]
    HmacSha256,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Key {
    /// The secret's text is the key.
    Utf8,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Signature {
    /// Names of the header that holds the signature text; the first that was sent is used.
    pub(super) headers: Vec<String>,
    pub(super) format: Format,
    pub(super) encoding: Encoding,
    pub(super) undecodable: Undecodable,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Format {
    /// The header is one signature, with or without a prefix in front.
    Bare { optional_prefix: Option<String> },
    /// The header is `key=value,key=value`; every value of `signature_key` is a candidate.
    Pairs { signature_key: String },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Encoding {
    /// Hexadecimal digits in either case.
    Hex,
    /// Lower-case hexadecimal digits only.
    HexLower,
}

/// What a signature is that cannot be decoded.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Undecodable {
    Mismatch,
    Malformed,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Timestamp {
    pub(super) from: TimestampSource,
    pub(super) unit: Unit,
    /// Seconds to either side of now.
    pub(super) tolerance_s: u32,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum TimestampSource {
    /// The value of this key in a signature of format `pairs`.
    Pair(String),
}

/// The unit of a point in time.
#[derive(Debug, Deserialize)]
pub(super) enum Unit {
    /// Unix seconds.
    #[serde(rename = "s")]
    Seconds,
}

/// Where an event's facts stand. In each list the first source that has a value wins.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Event {
    /// Absent where the id travels outside the signed body.
    #[serde(default)]
    pub(super) id: Vec<Source>,
    #[serde(rename = "type")]
    pub(super) event_type: Vec<Source>,
    #[serde(default)]
    pub(super) order_reference: Vec<Source>,
    #[serde(default)]
    pub(super) gateway_order_id: Vec<Source>,
    #[serde(default)]
    pub(super) merchant_id: Vec<Source>,
    pub(super) amount: Amount,
    pub(super) currency: Vec<Source>,
    #[serde(default)]
    pub(super) bank_reference: Vec<Source>,
    #[serde(default)]
    pub(super) payer: Vec<Source>,
    pub(super) event_time: Option<EventTime>,
    #[serde(default)]
    pub(super) live_mode: Vec<Source>,
    #[serde(default)]
    pub(super) references: Vec<Reference>,
    pub(super) kinds: Vec<KindRule>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Amount {
    pub(super) from: Vec<Source>,
    pub(super) unit: AmountUnit,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum AmountUnit {
    /// A JSON integer of minor units.
    Minor,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventTime {
    pub(super) from: Vec<Source>,
    pub(super) unit: Unit,
}

/// A place in the body.
#[derive(Debug, Clone, Deserialize)]
#[serde(
    untagged,
    expecting = "a place is a JSON pointer, or an object with \"at\" (a list of JSON pointers) and \"prefixes\""
)]
pub(super) enum Source {
    /// JSON pointer (RFC 6901).
    Pointer(String),
    /// Pointers that count only where the string there begins with one of the prefixes: how ids
    /// of different things that share a field are told apart.
    Prefixed(Prefixed),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Prefixed {
    pub(super) at: Vec<String>,
    pub(super) prefixes: Vec<String>,
}

/// An id that says which payment, refund or dispute an event is about.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reference {
    pub(super) kind: String,
    pub(super) from: Vec<Source>,
}

/// Which kind an event of one of these types has. The first rule that applies wins.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KindRule {
    pub(super) types: Vec<String>,
    pub(super) when: Option<Condition>,
    pub(super) kind: Kind,
    /// Where these types hold the amount, if not where the others do.
    pub(super) amount: Option<Vec<Source>>,
}

/// Holds when the scalar at a place is one of a list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Condition {
    pub(super) at: String,
    pub(super) is: Vec<Scalar>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a condition compares with strings, true and false")]
pub(super) enum Scalar {
    Bool(bool),
    Text(String),
}
