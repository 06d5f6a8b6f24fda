//! `verify`: how a delivery is authenticated.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::domain::signature::{FieldsOf, KeyForm, Repeated, Undecodable, Unit};

/// How a delivery is authenticated.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::domain::gateway) struct Verify {
    pub(in crate::domain::gateway) method: Method,
    /// The fixed vector of `aes-128-cbc-salted-sha256`, 16 characters.
    pub(in crate::domain::gateway) iv: Option<String>,
    #[serde(default)]
    pub(in crate::domain::gateway) key: Key,
    /// Signature and signed text are each item's own.
    #[serde(default)]
    pub(in crate::domain::gateway) per_item: bool,
    /// What is signed; absent for a credential.
    pub(in crate::domain::gateway) signed_text: Option<SignedText>,
    /// What else may be signed instead.
    #[serde(default)]
    pub(in crate::domain::gateway) or_signed_text: Vec<SignedText>,
    /// The only characters that may stand at a place, such as `A-Za-z0-9+/=`.
    #[serde(default)]
    pub(in crate::domain::gateway) characters: BTreeMap<String, String>,
    /// The message id: `{id}` in a signed text.
    #[serde(default)]
    pub(in crate::domain::gateway) id: Vec<String>,
    pub(in crate::domain::gateway) timestamp: Option<Timestamp>,
    pub(in crate::domain::gateway) signature: Signature,
}

/// What makes the signature.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(in crate::domain::gateway) enum Method {
    /// HMAC (RFC 2104) with MD5.
    HmacMd5,
    /// HMAC with SHA-1.
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
    /// RSA PKCS#1 v1.5 with SHA-384.
    RsaSha384,
    /// RSA PKCS#1 v1.5 with SHA-512.
    RsaSha512,
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
pub(in crate::domain::gateway) enum Key {
    /// The encoding.
    Encoding(KeyForm),
    /// The encoding of what follows a prefix.
    Prefixed(PrefixedKey),
}

impl Default for Key {
    fn default() -> Self {
        Self::Encoding(KeyForm::Utf8)
    }
}

/// The encoding of what follows a prefix.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::domain::gateway) struct PrefixedKey {
    pub(in crate::domain::gateway) encoding: KeyForm,
    /// Dropped where the secret begins with it.
    pub(in crate::domain::gateway) prefix: Option<String>,
}

/// A text, or parts of one.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "a signed text is a string, or a list of strings and parts")]
pub(in crate::domain::gateway) enum SignedText {
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
pub(in crate::domain::gateway) enum TextPart {
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
pub(in crate::domain::gateway) struct IfPresent {
    pub(in crate::domain::gateway) if_present: String,
}

/// All fields.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::domain::gateway) struct Fields {
    pub(in crate::domain::gateway) fields: FieldList,
}

/// The fields of a form, a query or the top of a JSON object, sorted by name and joined.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::domain::gateway) struct FieldList {
    pub(in crate::domain::gateway) of: FieldsOf,
    /// Fields that are left out, such as the signature's own.
    #[serde(default)]
    pub(in crate::domain::gateway) except: Vec<String>,
    /// How one is written, with `{key}` and `{value}`.
    pub(in crate::domain::gateway) each: String,
    /// What stands between two.
    pub(in crate::domain::gateway) join: String,
    /// Whether empty fields are left out.
    #[serde(default)]
    pub(in crate::domain::gateway) skip_empty: bool,
    /// Texts that count as empty.
    #[serde(default)]
    pub(in crate::domain::gateway) empty: Vec<String>,
}

/// Where the signature stands and how it is written.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::domain::gateway) struct Signature {
    /// Places that may hold the signature text; the first that was sent is used.
    pub(in crate::domain::gateway) from: Vec<String>,
    #[serde(default)]
    pub(in crate::domain::gateway) format: Format,
    /// Absent for a credential.
    pub(in crate::domain::gateway) encoding: Option<Encoding>,
    #[serde(default)]
    pub(in crate::domain::gateway) undecodable: Undecodable,
}

/// The layout of a signature text.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "a format is \"bare\", or an object with \"bare\", \"list\" or \"pairs\"")]
pub(in crate::domain::gateway) enum Format {
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
pub(in crate::domain::gateway) enum PlainFormat {
    /// Nothing but the signature.
    Bare,
}

/// A layout with its details.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(in crate::domain::gateway) enum DetailedFormat {
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
pub(in crate::domain::gateway) struct Bare {
    #[serde(default)]
    pub(in crate::domain::gateway) prefix: String,
    #[serde(default)]
    pub(in crate::domain::gateway) prefix_optional: bool,
    /// The signature ends before this text, where that is there.
    pub(in crate::domain::gateway) until: Option<String>,
}

/// Several signatures; those behind the prefix count.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::domain::gateway) struct List {
    pub(in crate::domain::gateway) separator: String,
    #[serde(default)]
    pub(in crate::domain::gateway) prefix: String,
    #[serde(default)]
    pub(in crate::domain::gateway) prefix_optional: bool,
    /// Whether white space around a signature does not count.
    #[serde(default)]
    pub(in crate::domain::gateway) trim: bool,
}

/// Pairs of key and value.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::domain::gateway) struct Pairs {
    #[serde(default = "comma")]
    pub(in crate::domain::gateway) separator: String,
    #[serde(default = "equals")]
    pub(in crate::domain::gateway) assign: String,
    /// The key whose values are signatures, or `parameter:NAME`.
    pub(in crate::domain::gateway) key: String,
    /// Whether white space around keys and values does not count.
    #[serde(default)]
    pub(in crate::domain::gateway) trim: bool,
    /// Whether keys are compared without regard to case.
    #[serde(default)]
    pub(in crate::domain::gateway) ignore_case: bool,
    #[serde(default)]
    pub(in crate::domain::gateway) repeated: Repeated,
}

fn comma() -> String {
    ",".to_owned()
}

fn equals() -> String {
    "=".to_owned()
}

/// How a signature is encoded.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(in crate::domain::gateway) enum Encoding {
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

/// The moment that is signed along: `{timestamp}` in a signed text.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::domain::gateway) struct Timestamp {
    /// Places, or `pair:KEY` alone: a value of a signature of format `pairs`.
    pub(in crate::domain::gateway) from: Vec<String>,
    pub(in crate::domain::gateway) unit: Unit,
    /// Seconds by which it may differ from now; always written, as an age that is not checked is a decision.
    pub(in crate::domain::gateway) tolerance_s: Tolerance,
    #[serde(default)]
    pub(in crate::domain::gateway) repeated: RepeatedTimestamp,
}

/// Seconds by which a timestamp may differ from now.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(
    untagged,
    expecting = "a tolerance is a number of seconds, an object with \"past\" and \"future\", or null"
)]
pub(in crate::domain::gateway) enum Tolerance {
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
pub(in crate::domain::gateway) struct EachTolerance {
    pub(in crate::domain::gateway) past: Option<u32>,
    pub(in crate::domain::gateway) future: Option<u32>,
}

/// What several timestamps among pairs mean.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(in crate::domain::gateway) enum RepeatedTimestamp {
    /// Nobody can tell.
    #[default]
    Malformed,
    /// The last counts.
    Last,
}
