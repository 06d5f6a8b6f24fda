//! A gateway as data: its JSON definition, checked and compiled once, interpreted per delivery.
//!
//! No gateway is known to the code by name. A definition says how a delivery is authenticated
//! (`verify`) and which scalars of the body are which facts of an event (`event`).

mod definition;

use std::fmt;

use super::identifier;
use super::json::{self, Pointers, Slot};
use super::kind::Kind;
use super::signature::{Encoding, Format, KeyEncoding, Scheme, Template, Undecodable};
use definition as written;

/// The kind under which a bank's own reference (UTR, RRN) counts as a payment reference.
pub const BANK_REFERENCE_KIND: &str = "bank";

/// What is wrong with a definition, as a sentence for whoever wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionFault(String);

impl fmt::Display for DefinitionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DefinitionFault {}

/// Refuses a definition with a sentence.
fn fault<T>(sentence: impl Into<String>) -> Result<T, DefinitionFault> {
    Err(DefinitionFault(sentence.into()))
}

/// A compiled gateway definition. It never changes; share it by reference or `Rc`.
#[derive(Debug)]
pub struct Gateway {
    description: String,
    scheme: Scheme,
    mapping: Mapping,
}

impl Gateway {
    /// Reads and checks a definition.
    ///
    /// # Errors
    /// [`DefinitionFault`] when `json` is not a definition, or one that could never work or would
    /// trust what is not signed.
    pub fn from_json(json: &str) -> Result<Self, DefinitionFault> {
        let definition: written::Definition = serde_json::from_str(json).map_err(|error| {
            DefinitionFault(format!("not a gateway definition: {}", json::without_place(&error)))
        })?;
        Ok(Self {
            description: definition.description,
            scheme: compile_scheme(definition.verify)?,
            mapping: Mapping::compile(definition.event)?,
        })
    }

    /// One line for people.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Whether the event id stands in the signed body. Where it does not, it is a mere claim of
    /// whoever delivers, and the digest of the body identifies the event.
    #[must_use]
    pub fn id_is_signed(&self) -> bool {
        !self.mapping.id.0.is_empty()
    }

    /// How its deliveries are authenticated.
    #[must_use]
    pub fn scheme(&self) -> &Scheme {
        &self.scheme
    }

    pub(super) fn mapping(&self) -> &Mapping {
        &self.mapping
    }
}

fn compile_scheme(verify: written::Verify) -> Result<Scheme, DefinitionFault> {
    let written::Method::HmacSha256 = verify.method; // a second one turns this into a branch
    let signature = verify.signature;
    let signed_text = Template::parse(&verify.signed_text).map_err(DefinitionFault)?;
    if signature.headers.iter().any(|name| name.is_empty()) || signature.headers.is_empty() {
        return fault("signature.headers must name at least one header");
    }
    if signed_text.has_timestamp() != verify.timestamp.is_some() {
        return fault(
            "signed_text contains {timestamp} exactly when there is a \"timestamp\" section: \
             an unsigned timestamp proves nothing",
        );
    }

    let (timestamp_key, tolerance_s) = match verify.timestamp {
        None => (None, 0),
        Some(timestamp) => {
            let written::TimestampSource::Pair(key) = timestamp.from;
            let written::Unit::Seconds = timestamp.unit;
            (Some(key), timestamp.tolerance_s)
        }
    };
    let format = match signature.format {
        written::Format::Bare { .. } if timestamp_key.is_some() => {
            return fault("a timestamp from a \"pair\" needs a signature of format \"pairs\"");
        }
        written::Format::Bare { optional_prefix } => {
            Format::Bare { optional_prefix: optional_prefix.map(Into::into) }
        }
        written::Format::Pairs { signature_key } => {
            let usable = |key: &String| !key.is_empty() && !key.contains([',', '=']);
            if !usable(&signature_key) || !timestamp_key.as_ref().is_none_or(usable) {
                return fault("a key of a pair is not empty and contains neither \",\" nor \"=\"");
            }
            if timestamp_key.as_ref() == Some(&signature_key) {
                return fault("signature and timestamp cannot have the same key");
            }
            Format::Pairs {
                signature_key: signature_key.into(),
                timestamp_key: timestamp_key.map(Into::into),
            }
        }
    };
    Ok(Scheme {
        key: match verify.key {
            written::Key::Utf8 => KeyEncoding::Utf8,
        },
        signed_text,
        headers: signature.headers,
        format,
        encoding: match signature.encoding {
            written::Encoding::Hex => Encoding::Hex,
            written::Encoding::HexLower => Encoding::HexLower,
        },
        undecodable: match signature.undecodable {
            written::Undecodable::Mismatch => Undecodable::Mismatch,
            written::Undecodable::Malformed => Undecodable::Malformed,
        },
        tolerance_s,
    })
}

/// The part of a definition that says where an event's facts stand.
#[derive(Debug)]
pub(super) struct Mapping {
    pub(super) pointers: Pointers,
    pub(super) id: Sources,
    pub(super) event_type: Sources,
    pub(super) order_reference: Sources,
    pub(super) gateway_order_id: Sources,
    pub(super) merchant_id: Sources,
    pub(super) amount: Sources,
    pub(super) currency: Sources,
    pub(super) bank_reference: Sources,
    pub(super) payer: Sources,
    pub(super) event_time: Sources,
    pub(super) live_mode: Sources,
    /// Sorted by kind, one entry each.
    pub(super) references: Vec<(String, Sources)>,
    /// Sorted by event type; of one type in the order in which they are tried.
    pub(super) kinds: Vec<KindRule>,
}

/// Places to look for one fact, in order of preference.
#[derive(Debug)]
pub(super) struct Sources(pub(super) Vec<Source>);

#[derive(Debug)]
pub(super) struct Source {
    pub(super) slot: Slot,
    /// Empty: any value counts. Else only a string with one of these in front.
    pub(super) prefixes: Vec<String>,
}

/// Says which kind the events of one type have.
#[derive(Debug)]
pub(super) struct KindRule {
    pub(super) event_type: String,
    pub(super) when: Option<Condition>,
    pub(super) kind: Kind,
    /// Replaces [`Mapping::amount`].
    pub(super) amount: Option<Sources>,
}

#[derive(Debug)]
pub(super) struct Condition {
    pub(super) slot: Slot,
    pub(super) is: Vec<Scalar>,
}

#[derive(Debug)]
pub(super) enum Scalar {
    Bool(bool),
    Text(String),
}

impl Mapping {
    fn compile(event: written::Event) -> Result<Self, DefinitionFault> {
        let mut pointers = Pointers::default();
        let written::AmountUnit::Minor = event.amount.unit;
        let event_time = event.event_time.map_or(Vec::new(), |time| {
            let written::Unit::Seconds = time.unit;
            time.from
        });
        let mut places = |sources| compile_sources(&mut pointers, sources);
        let mut mapping = Self {
            id: places(event.id)?,
            event_type: places(event.event_type)?,
            order_reference: places(event.order_reference)?,
            gateway_order_id: places(event.gateway_order_id)?,
            merchant_id: places(event.merchant_id)?,
            amount: places(event.amount.from)?,
            currency: places(event.currency)?,
            bank_reference: places(event.bank_reference)?,
            payer: places(event.payer)?,
            event_time: places(event_time)?,
            live_mode: places(event.live_mode)?,
            references: compile_references(&mut pointers, event.references)?,
            kinds: compile_kinds(&mut pointers, event.kinds)?,
            pointers: Pointers::default(),
        };
        if mapping.event_type.0.is_empty() {
            return fault("event.type must name at least one place");
        }
        let pays = |rule: &KindRule| rule.kind == Kind::PaymentSucceeded;
        if mapping.kinds.iter().any(pays) {
            let names_order = [&mapping.order_reference, &mapping.gateway_order_id];
            if names_order.iter().all(|sources| sources.0.is_empty()) {
                return fault("payments need an order_reference or a gateway_order_id");
            }
            if mapping.amount.0.is_empty() || mapping.currency.0.is_empty() {
                return fault("payments need an amount and a currency");
            }
        }
        mapping.pointers = pointers;
        Ok(mapping)
    }
}

fn compile_pointer(pointers: &mut Pointers, pointer: &str) -> Result<Slot, DefinitionFault> {
    let slot = pointers.add(pointer);
    slot.map_err(|why| DefinitionFault(format!("{pointer:?} is not a place: {why}")))
}

fn compile_sources(
    pointers: &mut Pointers,
    sources: Vec<written::Source>,
) -> Result<Sources, DefinitionFault> {
    let mut compiled = Vec::new();
    for source in sources {
        let (at, prefixes) = match source {
            written::Source::Pointer(at) => (vec![at], Vec::new()),
            written::Source::Prefixed(written::Prefixed { at, prefixes }) => {
                if prefixes.is_empty() || prefixes.iter().any(String::is_empty) {
                    return fault("\"prefixes\" lists at least one prefix, and no empty one");
                }
                (at, prefixes)
            }
        };
        for pointer in at {
            compiled.push(Source { slot: compile_pointer(pointers, &pointer)?, prefixes: prefixes.clone() });
        }
    }
    Ok(Sources(compiled))
}

fn compile_references(
    pointers: &mut Pointers,
    references: Vec<written::Reference>,
) -> Result<Vec<(String, Sources)>, DefinitionFault> {
    let mut compiled = Vec::new();
    for written::Reference { kind, from } in references {
        if let Err(why) = identifier::check(&kind) {
            return fault(format!("a reference kind is an identifier: {why}"));
        }
        if kind == BANK_REFERENCE_KIND {
            return fault("the reference kind \"bank\" is filled from bank_reference");
        }
        compiled.push((kind, compile_sources(pointers, from)?));
    }
    compiled.sort_by(|(a, _), (b, _)| a.cmp(b));
    if let Some(pair) = compiled.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return fault(format!("the reference kind {:?} appears twice", pair[0].0));
    }
    Ok(compiled)
}

fn compile_kinds(
    pointers: &mut Pointers,
    rules: Vec<written::KindRule>,
) -> Result<Vec<KindRule>, DefinitionFault> {
    let mut compiled: Vec<KindRule> = Vec::new();
    for rule in rules {
        for event_type in &rule.types {
            let when = rule.when.as_ref();
            compiled.push(KindRule {
                event_type: event_type.clone(),
                when: when.map(|when| compile_condition(pointers, when)).transpose()?,
                kind: rule.kind,
                amount: match &rule.amount {
                    Some(places) => Some(compile_sources(pointers, places.clone())?),
                    None => None,
                },
            });
        }
    }
    compiled.sort_by(|a, b| a.event_type.cmp(&b.event_type)); // stable: rules stay in their order
    let pairs = compiled.windows(2);
    for (before, after) in pairs.map(|pair| (&pair[0], &pair[1])) {
        if before.when.is_none() && before.event_type == after.event_type {
            return fault(format!(
                "an earlier rule without \"when\" already decides the kind of {:?}",
                after.event_type
            ));
        }
    }
    Ok(compiled)
}

fn compile_condition(
    pointers: &mut Pointers,
    condition: &written::Condition,
) -> Result<Condition, DefinitionFault> {
    let is = condition.is.iter().map(|scalar| match scalar {
        written::Scalar::Bool(value) => Scalar::Bool(*value),
        written::Scalar::Text(value) => Scalar::Text(value.clone()),
    });
    Ok(Condition { slot: compile_pointer(pointers, &condition.at)?, is: is.collect() })
}
