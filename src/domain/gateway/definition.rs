//! The shape of a gateway definition as it is written in JSON. Unknown and repeated fields are
//! refused, so that a misspelt rule cannot pass for one that was left out.
//!
//! A place (`/json/pointer`, `form:`, `header:`, `query:`, `parameter:`, `text:`) is a string here.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::domain::kind::Kind;

/// One gateway: how its deliveries are authenticated and where its events hold what.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Definition {
    /// One line for people.
    pub(super) description: String,
    /// Where a delivery that bundles events holds them: a JSON pointer with one `*`.
    pub(super) items: Option<String>,
    /// How a delivery is authenticated.
    pub(super) verify: Verify,
    /// Where an event's facts stand.
    pub(super) event: Event,
}

/// How a delivery is authenticated.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Verify {
    pub(super) method: Method,
    /// The fixed vector of `aes-128-cbc-salted-sha256`, 16 characters.
    pub(super) iv: Option<String>,
    #[serde(default)]
    pub(super) key: Key,
    /// Signature and signed text are each item's own.
    #[serde(default)]
    pub(super) per_item: bool,
    /// What is signed; absent for a credential.
    pub(super) signed_text: Option<SignedText>,
    /// What else may be signed instead.
    #[serde(default)]
    pub(super) or_signed_text: Vec<SignedText>,
    /// The only characters that may stand at a place, such as `A-Za-z0-9+/=`.
    #[serde(default)]
    pub(super) characters: BTreeMap<String, String>,
    /// The message id: `{id}` in a signed text.
    #[serde(default)]
    pub(super) id: Vec<String>,
    pub(super) timestamp: Option<Timestamp>,
    pub(super) signature: Signature,
}

/// What makes the signature.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum Method {
    /// HMAC with SHA-1 (RFC 2104).
    HmacSha1,
    /// HMAC with SHA-256.
    HmacSha256,
    /// HMAC with SHA-384.
    HmacSha384,
    /// HMAC with SHA-512.
    HmacSha512,
    /// A plain MD5 of a text that holds `{secret}`.
    Md5,
    /// A plain SHA-1 of a text that holds `{secret}`.
    Sha1,
    /// A plain SHA-256 of a text that holds `{secret}`.
    Sha256,
    /// A plain SHA-384 of a text that holds `{secret}`.
    Sha384,
    /// A plain SHA-512 of a text that holds `{secret}`.
    Sha512,
    /// RSA PKCS#1 v1.5 with SHA-256; the secret is the public key.
    RsaSha256,
    /// Ed25519; the secret is the public key.
    Ed25519,
    /// The signature is the secret itself.
    Token,
    /// The signature is HTTP Basic credentials; the secret is `user:password`.
    Basic,
    /// A salted SHA-256 of the signed text, sealed with AES-128-CBC.
    #[serde(rename = "aes-128-cbc-salted-sha256")]
    Aes128CbcSaltedSha256,
}

/// How the key is made from a secret's text.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "a key is an encoding, or an object with \"encoding\" and \"prefix\"")]
pub(super) enum Key {
    /// The encoding.
    Encoding(KeyEncoding),
    /// The encoding of what follows a prefix.
    Prefixed(PrefixedKey),
}

impl Default for Key {
    fn default() -> Self {
        Self::Encoding(KeyEncoding::Utf8)
    }
}

/// The encoding of what follows a prefix.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct PrefixedKey {
    pub(super) encoding: KeyEncoding,
    /// Dropped where the secret begins with it.
    pub(super) prefix: Option<String>,
}

/// How a key is written.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum KeyEncoding {
    /// The secret's text is the key.
    Utf8,
    /// Base64, padded or not.
    Base64,
    /// Hexadecimal digits.
    Hex,
    /// The SHA-1 of the text is the key.
    #[serde(rename = "sha1-of-utf8")]
    Sha1OfUtf8,
    /// A public key in PEM.
    Pem,
}

/// A text, or parts of one.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "a signed text is a string, or a list of strings and parts")]
pub(super) enum SignedText {
    /// Literal text with `{PLACE}`, `{PLACE|FILTER}`, `{body}`, `{timestamp}`, `{id}`, `{secret}`.
    Text(String),
    /// Parts, one after the other.
    Parts(Vec<TextPart>),
}

/// A part of a signed text.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(
    untagged,
    expecting = "a part of a signed text is a string, or an object with \"if_present\" or \"fields\""
)]
pub(super) enum TextPart {
    /// Literal text with placeholders.
    Text(String),
    /// Dropped where a placeholder in it has no text.
    IfPresent(IfPresent),
    /// All fields.
    Fields(Fields),
}

/// Dropped where a placeholder in it has no text.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct IfPresent {
    pub(super) if_present: String,
}

/// All fields.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Fields {
    pub(super) fields: FieldList,
}

/// The fields of a form, a query or the top of a JSON object, sorted by name and joined.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct FieldList {
    pub(super) of: FieldsOf,
    /// Fields that are left out, such as the signature's own.
    #[serde(default)]
    pub(super) except: Vec<String>,
    /// How one is written, with `{key}` and `{value}`.
    pub(super) each: String,
    /// What stands between two.
    pub(super) join: String,
    /// Whether empty fields are left out.
    #[serde(default)]
    pub(super) skip_empty: bool,
    /// Texts that count as empty.
    #[serde(default)]
    pub(super) empty: Vec<String>,
}

/// Whose fields.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum FieldsOf {
    /// A form body.
    Form,
    /// The query of the request's path.
    Query,
    /// The top of a JSON body; only scalars count.
    Json,
}

/// Where the signature stands and how it is written.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Signature {
    /// Places that may hold the signature text; the first that was sent is used.
    pub(super) from: Vec<String>,
    #[serde(default)]
    pub(super) format: Format,
    /// Absent for a credential.
    pub(super) encoding: Option<Encoding>,
    #[serde(default)]
    pub(super) undecodable: Undecodable,
}

/// The layout of a signature text.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "a format is \"bare\", or an object with \"bare\", \"list\" or \"pairs\"")]
pub(super) enum Format {
    /// `"bare"`: the text is one signature.
    Plain(PlainFormat),
    /// With its details.
    Detailed(DetailedFormat),
}

impl Default for Format {
    fn default() -> Self {
        Self::Plain(PlainFormat::Bare)
    }
}

/// The text is one signature.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum PlainFormat {
    /// Nothing but the signature.
    Bare,
}

/// A layout with its details.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum DetailedFormat {
    /// One signature behind a prefix, up to a mark.
    Bare(Bare),
    /// Several signatures; those behind the prefix count.
    List(List),
    /// Pairs of key and value.
    Pairs(Pairs),
}

/// One signature behind a prefix, up to a mark.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Bare {
    #[serde(default)]
    pub(super) prefix: String,
    #[serde(default)]
    pub(super) prefix_optional: bool,
    /// The signature ends before this text, where that is there.
    pub(super) until: Option<String>,
}

/// Several signatures; those behind the prefix count.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    pub(super) separator: String,
    #[serde(default)]
    pub(super) prefix: String,
    #[serde(default)]
    pub(super) prefix_optional: bool,
    /// Whether white space around a signature does not count.
    #[serde(default)]
    pub(super) trim: bool,
}

/// Pairs of key and value.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Pairs {
    #[serde(default = "comma")]
    pub(super) separator: String,
    #[serde(default = "equals")]
    pub(super) assign: String,
    /// The key whose values are signatures, or `parameter:NAME`.
    pub(super) key: String,
    /// Whether white space around keys and values does not count.
    #[serde(default)]
    pub(super) trim: bool,
    /// Whether keys are compared without regard to case.
    #[serde(default)]
    pub(super) ignore_case: bool,
    #[serde(default)]
    pub(super) repeated: Repeated,
}

fn comma() -> String {
    ",".to_owned()
}

fn equals() -> String {
    "=".to_owned()
}

/// Which values of a repeated key count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum Repeated {
    /// Each is a candidate.
    #[default]
    Any,
    /// The first.
    First,
    /// The last.
    Last,
}

/// How a signature is encoded.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum Encoding {
    /// Hexadecimal digits in either case.
    Hex,
    /// Lower-case hexadecimal digits only.
    HexLower,
    /// Standard base64 with padding.
    Base64,
    /// The URL-safe alphabet, padded or not.
    #[serde(rename = "base64url")]
    Base64Url,
}

/// What a signature is that cannot be decoded.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum Undecodable {
    /// A wrong signature like any other.
    #[default]
    Mismatch,
    /// Not a signature at all.
    Malformed,
}

/// The moment that is signed along: `{timestamp}` in a signed text.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Timestamp {
    /// Places, or `pair:KEY` alone: a value of a signature of format `pairs`.
    pub(super) from: Vec<String>,
    pub(super) unit: SignedUnit,
    /// Seconds by which it may differ from now; always written, as an age that is not checked is a decision.
    pub(super) tolerance_s: Tolerance,
    #[serde(default)]
    pub(super) repeated: RepeatedTimestamp,
}

/// What the number counts.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) enum SignedUnit {
    /// Seconds since 1970.
    #[serde(rename = "s")]
    Seconds,
    /// Milliseconds since 1970.
    #[serde(rename = "ms")]
    Milliseconds,
}

/// Seconds by which a timestamp may differ from now.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(
    untagged,
    expecting = "a tolerance is a number of seconds, an object with \"past\" and \"future\", or null"
)]
pub(super) enum Tolerance {
    /// To either side.
    Both(u32),
    /// To each side its own.
    Each(EachTolerance),
    /// By any.
    Unchecked(()),
}

/// Seconds to each side; absent: any.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct EachTolerance {
    pub(super) past: Option<u32>,
    pub(super) future: Option<u32>,
}

/// What several timestamps among pairs mean.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum RepeatedTimestamp {
    /// Nobody can tell.
    #[default]
    Malformed,
    /// The last counts.
    Last,
}

/// Where an event's facts stand. In each list the first source that has a text wins.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Event {
    /// The event is JSON inside a text of the body.
    pub(super) document: Option<Document>,
    /// Absent where nothing identifies an event but its bytes.
    #[serde(default)]
    pub(super) id: Vec<Source>,
    /// Whether the id is the event's own; `false` where several events share it, such as a payment's.
    #[serde(default = "yes")]
    pub(super) id_identifies: bool,
    #[serde(rename = "type")]
    pub(super) event_type: Vec<Source>,
    #[serde(default)]
    pub(super) order_reference: Vec<Source>,
    #[serde(default)]
    pub(super) gateway_order_id: Vec<Source>,
    #[serde(default)]
    pub(super) merchant_id: Vec<Source>,
    pub(super) amount: Option<Amount>,
    #[serde(default)]
    pub(super) currency: Vec<Source>,
    #[serde(default)]
    pub(super) bank_reference: Vec<Source>,
    #[serde(default)]
    pub(super) payer: Vec<Source>,
    pub(super) event_time: Option<EventTime>,
    #[serde(default)]
    pub(super) live_mode: LiveMode,
    #[serde(default)]
    pub(super) references: Vec<Reference>,
    #[serde(default)]
    pub(super) kinds: Vec<KindRule>,
}

fn yes() -> bool {
    true
}

/// A JSON document inside a text of the body.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    /// The place of the text.
    pub(super) from: String,
    pub(super) encoding: DocumentEncoding,
}

/// How a document inside a text is written.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum DocumentEncoding {
    /// Standard base64.
    Base64,
    /// The text itself.
    Text,
}

/// Where the amount stands.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Amount {
    pub(super) from: Vec<Source>,
    pub(super) unit: AmountUnit,
    /// Decimals by which this gateway counts a currency's minor unit, where not those of ISO 4217.
    #[serde(default)]
    pub(super) exponents: BTreeMap<String, u8>,
}

/// What an amount counts.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum AmountUnit {
    /// A plain integer of minor units.
    Minor,
    /// A plain decimal number of major units.
    Major,
}

/// When the gateway says that it happened.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct EventTime {
    pub(super) from: Vec<Source>,
    pub(super) unit: TimeUnit,
    /// Of a `datetime`: its distance from UTC, such as `+05:30`.
    pub(super) offset: Option<String>,
}

/// How a moment is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) enum TimeUnit {
    /// Seconds since 1970.
    #[serde(rename = "s")]
    Seconds,
    /// Milliseconds since 1970.
    #[serde(rename = "ms")]
    Milliseconds,
    /// RFC 3339.
    #[serde(rename = "rfc3339")]
    Rfc3339,
    /// `YYYY-MM-DD HH:MM:SS`, with or without a fraction, at `offset`.
    #[serde(rename = "datetime")]
    Datetime,
}

/// Whether real money is meant.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "live_mode is a list of places, or an object with \"from\" and \"live\"")]
pub(super) enum LiveMode {
    /// Places of `true` or `false`.
    Bool(Vec<Source>),
    /// Places of a word, and the words that mean real money.
    Words(LiveWords),
}

impl Default for LiveMode {
    fn default() -> Self {
        Self::Bool(Vec::new())
    }
}

/// Places of a word, and the words that mean real money.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct LiveWords {
    pub(super) from: Vec<Source>,
    pub(super) live: Vec<String>,
}

/// Where a text stands.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(
    untagged,
    expecting = "a place is a string, or an object with \"at\" (a list of places) and \"prefixes\", or with \"join\" and \"with\""
)]
pub(super) enum Source {
    /// One place.
    Place(String),
    /// Places that count only where the text there begins with one of the prefixes: how ids of
    /// different things that share a field are told apart.
    Prefixed(Prefixed),
    /// Texts joined; absent unless all are there.
    Joined(Joined),
}

/// Places that count only where the text there begins with one of the prefixes.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Prefixed {
    pub(super) at: Vec<String>,
    pub(super) prefixes: Vec<String>,
}

/// Texts joined; absent unless all are there.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Joined {
    pub(super) join: Vec<String>,
    pub(super) with: String,
}

/// An id that says which payment, refund or dispute an event is about.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Reference {
    pub(super) kind: String,
    pub(super) from: Vec<Source>,
}

/// Which kind an event of one of these types has. The first rule that applies wins.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct KindRule {
    pub(super) kind: Kind,
    pub(super) types: Vec<String>,
    #[serde(default)]
    pub(super) when: When,
    /// Where these types hold the amount, if not where the others do.
    pub(super) amount: Option<Vec<Source>>,
    /// Where these types hold the gateway's id of the order, if not where the others do.
    pub(super) gateway_order_id: Option<Vec<Source>>,
    /// `fetch`: the event carries an id only; the facts have to be asked for.
    pub(super) details: Option<Details>,
}

/// Conditions that must all hold.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "\"when\" is a condition with \"at\" and \"is\", or a list of such")]
pub(super) enum When {
    /// One condition.
    One(Condition),
    /// Several.
    All(Vec<Condition>),
}

impl Default for When {
    fn default() -> Self {
        Self::All(Vec::new())
    }
}

/// Holds when the scalar at a place is one of a list.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Condition {
    pub(super) at: String,
    pub(super) is: Vec<Scalar>,
}

/// What is compared with.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "a condition compares with strings, true and false")]
pub(super) enum Scalar {
    /// A JSON boolean.
    Bool(bool),
    /// A text, or the digits of a number.
    Text(String),
}

/// How the facts of a thin event are had.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum Details {
    /// From the gateway's API.
    Fetch,
}
