//! `event`: where an event's facts stand.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::domain::gateway::mapping::{AmountUnit, Scalar};
use crate::domain::kind::Kind;

/// Where an event's facts stand. In each list the first source that has a text wins.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::domain::gateway) struct Event {
    /// The event is JSON inside a text of the body.
    pub(in crate::domain::gateway) document: Option<Document>,
    /// Absent where nothing identifies an event but its bytes.
    #[serde(default)]
    pub(in crate::domain::gateway) id: Vec<Source>,
    /// Whether the id is the event's own; `false` where several events share it, such as a payment's.
    #[serde(default = "yes")]
    pub(in crate::domain::gateway) id_identifies: bool,
    #[serde(rename = "type")]
    pub(in crate::domain::gateway) event_type: Vec<Source>,
    #[serde(default)]
    pub(in crate::domain::gateway) order_reference: Vec<Source>,
    #[serde(default)]
    pub(in crate::domain::gateway) gateway_order_id: Vec<Source>,
    #[serde(default)]
    pub(in crate::domain::gateway) merchant_id: Vec<Source>,
    pub(in crate::domain::gateway) amount: Option<Amount>,
    #[serde(default)]
    pub(in crate::domain::gateway) currency: Vec<Source>,
    #[serde(default)]
    pub(in crate::domain::gateway) bank_reference: Vec<Source>,
    #[serde(default)]
    pub(in crate::domain::gateway) payer: Vec<Source>,
    pub(in crate::domain::gateway) event_time: Option<EventTime>,
    #[serde(default)]
    pub(in crate::domain::gateway) live_mode: LiveMode,
    #[serde(default)]
    pub(in crate::domain::gateway) references: Vec<Reference>,
    #[serde(default)]
    pub(in crate::domain::gateway) kinds: Vec<KindRule>,
}

fn yes() -> bool {
    true
}

/// A JSON document inside a text of the body.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::domain::gateway) struct Document {
    /// The place of the text.
    pub(in crate::domain::gateway) from: String,
    pub(in crate::domain::gateway) encoding: DocumentEncoding,
}

/// How a document inside a text is written.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(in crate::domain::gateway) enum DocumentEncoding {
    /// Standard base64.
    Base64,
    /// The text itself.
    Text,
}

/// Where the amount stands.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::domain::gateway) struct Amount {
    pub(in crate::domain::gateway) from: Vec<Source>,
    pub(in crate::domain::gateway) unit: AmountUnit,
    /// Decimals by which this gateway counts a currency's minor unit, where not those of ISO 4217.
    #[serde(default)]
    pub(in crate::domain::gateway) exponents: BTreeMap<String, u8>,
}

/// When the gateway says that it happened.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::domain::gateway) struct EventTime {
    pub(in crate::domain::gateway) from: Vec<Source>,
    pub(in crate::domain::gateway) unit: TimeUnit,
    /// Of a `datetime`: its distance from UTC, such as `+05:30`.
    pub(in crate::domain::gateway) offset: Option<String>,
}

/// How a moment is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::domain::gateway) enum TimeUnit {
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
pub(in crate::domain::gateway) enum LiveMode {
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
pub(in crate::domain::gateway) struct LiveWords {
    pub(in crate::domain::gateway) from: Vec<Source>,
    pub(in crate::domain::gateway) live: Vec<String>,
}

/// Where a text stands.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(
    untagged,
    expecting = "a place is a string, or an object with \"at\" (a list of places) and \"prefixes\", or with \"join\" and \"with\""
)]
pub(in crate::domain::gateway) enum Source {
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
pub(in crate::domain::gateway) struct Prefixed {
    pub(in crate::domain::gateway) at: Vec<String>,
    pub(in crate::domain::gateway) prefixes: Vec<String>,
}

/// Texts joined; absent unless all are there.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::domain::gateway) struct Joined {
    pub(in crate::domain::gateway) join: Vec<String>,
    pub(in crate::domain::gateway) with: String,
}

/// An id that says which payment, refund or dispute an event is about.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::domain::gateway) struct Reference {
    pub(in crate::domain::gateway) kind: String,
    pub(in crate::domain::gateway) from: Vec<Source>,
}

/// Which kind an event of one of these types has. The first rule that applies wins.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(in crate::domain::gateway) struct KindRule {
    pub(in crate::domain::gateway) kind: Kind,
    pub(in crate::domain::gateway) types: Vec<String>,
    #[serde(default)]
    pub(in crate::domain::gateway) when: When,
    /// Where these types hold the amount, if not where the others do.
    pub(in crate::domain::gateway) amount: Option<Vec<Source>>,
    /// Where these types hold the gateway's id of the order, if not where the others do.
    pub(in crate::domain::gateway) gateway_order_id: Option<Vec<Source>>,
    /// `fetch`: the event carries an id only; the facts have to be asked for.
    pub(in crate::domain::gateway) details: Option<Details>,
}

/// Conditions that must all hold.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "\"when\" is a condition with \"at\" and \"is\", or a list of such")]
pub(in crate::domain::gateway) enum When {
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
pub(in crate::domain::gateway) struct Condition {
    pub(in crate::domain::gateway) at: String,
    pub(in crate::domain::gateway) is: Vec<Scalar>,
}

/// How the facts of a thin event are had.
#[derive(Debug, Clone, Copy, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(in crate::domain::gateway) enum Details {
    /// From the gateway's API.
    Fetch,
}
