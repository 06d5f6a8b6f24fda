//! Compiles the part of a definition that says where an event's facts stand.

use serde::Deserialize;

use super::definition as written;
use super::{BANK_REFERENCE_KIND, DefinitionFault, fault};
use crate::domain::identifier;
use crate::domain::json::Pointers;
use crate::domain::kind::Kind;
use crate::domain::money::Currency;
use crate::domain::place::{Needs, Place, canonical};

/// Where an event's facts stand.
#[derive(Debug)]
pub(in crate::domain) struct Mapping {
    pub(in crate::domain) pointers: Pointers,
    /// What of the delivery, or of the document in it, has to be parsed.
    pub(in crate::domain) needs: Needs,
    pub(in crate::domain) document: Option<Document>,
    pub(in crate::domain) id: Sources,
    pub(in crate::domain) id_identifies: bool,
    pub(in crate::domain) event_type: Sources,
    pub(in crate::domain) order_reference: Sources,
    pub(in crate::domain) gateway_order_id: Sources,
    pub(in crate::domain) merchant_id: Sources,
    pub(in crate::domain) amount: Sources,
    pub(in crate::domain) amount_unit: AmountUnit,
    /// Currencies whose minor unit the gateway counts with other decimals, sorted.
    pub(in crate::domain) exponents: Vec<(Currency, u8)>,
    pub(in crate::domain) currency: Sources,
    pub(in crate::domain) bank_reference: Sources,
    pub(in crate::domain) payer: Sources,
    pub(in crate::domain) event_time: Sources,
    pub(in crate::domain) time_format: TimeFormat,
    pub(in crate::domain) live_mode: LiveMode,
    /// Sorted by kind, one entry each.
    pub(in crate::domain) references: Vec<(String, Sources)>,
    /// Sorted by event type; of one type in the order in which they are tried.
    pub(in crate::domain) kinds: Vec<KindRule>,
}

/// A JSON document inside a text of the body.
#[derive(Debug)]
pub(in crate::domain) struct Document {
    pub(in crate::domain) pointers: Pointers,
    pub(in crate::domain) place: Place,
    pub(in crate::domain) base64: bool,
}

/// Places to look for one fact, in order of preference.
pub(in crate::domain) type Sources = Vec<Source>;

/// Where a text stands.
#[derive(Debug)]
pub(in crate::domain) struct Source {
    pub(in crate::domain) kind: SourceKind,
    /// Empty: any text counts. Else only one with one of these in front.
    pub(in crate::domain) prefixes: Vec<String>,
}

impl Source {
    /// Whether it lies in the body.
    pub(in crate::domain) fn is_in_body(&self) -> bool {
        match &self.kind {
            SourceKind::Place(place) => place.is_in_body(),
            SourceKind::Joined { places, .. } => places.iter().any(Place::is_in_body),
        }
    }
}

#[derive(Debug)]
pub(in crate::domain) enum SourceKind {
    Place(Place),
    /// Texts joined; absent unless all are there.
    Joined {
        places: Vec<Place>,
        with: String,
    },
}

/// What an amount counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(in crate::domain) enum AmountUnit {
    /// A plain integer of minor units.
    Minor,
    /// A plain decimal number of major units.
    Major,
}

/// How a moment is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::domain) enum TimeFormat {
    Seconds,
    Milliseconds,
    Rfc3339,
    /// Local time at this distance from UTC, such as `+05:30`.
    Datetime {
        offset: String,
    },
}

/// Whether real money is meant.
#[derive(Debug)]
pub(in crate::domain) enum LiveMode {
    /// `true` or `false` there.
    Bool(Sources),
    /// One of these words there.
    Words { from: Sources, live: Vec<String> },
}

/// Says which kind the events of one type have.
#[derive(Debug)]
pub(in crate::domain) struct KindRule {
    pub(in crate::domain) event_type: String,
    /// All must hold.
    pub(in crate::domain) when: Vec<Condition>,
    pub(in crate::domain) kind: Kind,
    /// Replaces [`Mapping::amount`].
    pub(in crate::domain) amount: Option<Sources>,
    /// Replaces [`Mapping::gateway_order_id`].
    pub(in crate::domain) gateway_order_id: Option<Sources>,
    /// The event carries an id only.
    pub(in crate::domain) is_thin: bool,
}

#[derive(Debug)]
pub(in crate::domain) struct Condition {
    pub(in crate::domain) place: Place,
    pub(in crate::domain) is: Vec<Scalar>,
}

/// What is compared with.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "a condition compares with strings, true and false")]
pub(in crate::domain) enum Scalar {
    /// A JSON boolean.
    Bool(bool),
    /// A text, or the digits of a number.
    Text(String),
}

/// The facts that decide about money, each with the places that it is read from.
pub(super) type Facts = Vec<(&'static str, Vec<String>)>;

impl Mapping {
    pub(super) fn compile(event: written::Event) -> Result<(Self, Facts), DefinitionFault> {
        let mut compiler = Compiler { pointers: Pointers::default(), needs: Needs::default() };
        let document_place = event.document.as_ref().map(|document| document.from.clone());
        let facts = facts(&event, document_place.as_deref());
        let (amount, amount_unit, exponents) = match event.amount {
            None => (Vec::new(), AmountUnit::Minor, Vec::new()),
            Some(amount) => (amount.from, amount.unit, exponents(amount.exponents)?),
        };
        let (event_time, time_format) = match event.event_time {
            None => (Vec::new(), TimeFormat::Rfc3339),
            Some(time) => (time.from, time_format(time.unit, time.offset)?),
        };
        let live_mode = match event.live_mode {
            written::LiveMode::Bool(from) => LiveMode::Bool(compiler.sources(from)?),
            written::LiveMode::Words(written::LiveWords { from, live }) => {
                LiveMode::Words { from: compiler.sources(from)?, live }
            }
        };
        let mapping = Self {
            document: event.document.map(document).transpose()?,
            id: compiler.sources(event.id)?,
            id_identifies: event.id_identifies,
            event_type: compiler.sources(event.event_type)?,
            order_reference: compiler.sources(event.order_reference)?,
            gateway_order_id: compiler.sources(event.gateway_order_id)?,
            merchant_id: compiler.sources(event.merchant_id)?,
            amount: compiler.sources(amount)?,
            amount_unit,
            exponents,
            currency: compiler.sources(event.currency)?,
            bank_reference: compiler.sources(event.bank_reference)?,
            payer: compiler.sources(event.payer)?,
            event_time: compiler.sources(event_time)?,
            time_format,
            live_mode,
            references: compiler.references(event.references)?,
            kinds: compiler.kinds(event.kinds)?,
            pointers: Pointers::default(),
            needs: Needs::default(),
        };
        let mapping = Self { pointers: compiler.pointers, needs: compiler.needs, ..mapping };
        mapping.check()?;
        Ok((mapping, facts))
    }

    fn check(&self) -> Result<(), DefinitionFault> {
        if self.event_type.is_empty() {
            return fault("event.type must name at least one place");
        }
        if self.needs.json && self.needs.form {
            return fault("a body is JSON or a form: the places of an event are in one of them");
        }
        let pays = |rule: &KindRule| rule.kind == Kind::PaymentSucceeded && !rule.is_thin;
        if self.kinds.iter().any(pays) {
            if self.order_reference.is_empty() && self.gateway_order_id.is_empty() {
                return fault("payments need an order_reference or a gateway_order_id");
            }
            if self.amount.is_empty() || self.currency.is_empty() {
                return fault("payments need an amount and a currency");
            }
        }
        Ok(())
    }
}

fn facts(event: &written::Event, document: Option<&str>) -> Facts {
    let mut facts: Facts = vec![
        ("id", places(&event.id)),
        ("type", places(&event.event_type)),
        ("order reference", places(&event.order_reference)),
        ("gateway order id", places(&event.gateway_order_id)),
        ("merchant", places(&event.merchant_id)),
        ("amount", event.amount.as_ref().map(|amount| places(&amount.from)).unwrap_or_default()),
        ("currency", places(&event.currency)),
        (
            "payment references",
            event.references.iter().flat_map(|reference| places(&reference.from)).collect(),
        ),
        ("bank reference", places(&event.bank_reference)),
        ("mode", event.live_mode.places()),
        (
            "amount by kind",
            event.kinds.iter().flat_map(|rule| rule.amount.iter().flat_map(|from| places(from))).collect(),
        ),
        (
            "gateway order id by kind",
            event
                .kinds
                .iter()
                .flat_map(|rule| rule.gateway_order_id.iter().flat_map(|from| places(from)))
                .collect(),
        ),
        ("conditions of its kind", event.kinds.iter().flat_map(|rule| rule.when.places()).collect()),
    ];
    if let Some(document) = document {
        // What is read from the document is vouched for as far as the document is.
        for (_, places) in &mut facts {
            for place in places.iter_mut().filter(|place| place.starts_with('/')) {
                document.clone_into(place);
            }
        }
    }
    facts
}

fn places(sources: &[written::Source]) -> Vec<String> {
    let of = |source: &written::Source| match source {
        written::Source::Place(place) => vec![place.clone()],
        written::Source::Prefixed(prefixed) => prefixed.at.clone(),
        written::Source::Joined(joined) => joined.join.clone(),
    };
    sources.iter().flat_map(of).map(|place| canonical(&place)).collect()
}

impl written::LiveMode {
    fn places(&self) -> Vec<String> {
        match self {
            Self::Bool(from) => places(from),
            Self::Words(words) => places(&words.from),
        }
    }
}

impl written::When {
    fn conditions(&self) -> &[written::Condition] {
        match self {
            Self::One(condition) => std::slice::from_ref(condition),
            Self::All(conditions) => conditions,
        }
    }

    fn places(&self) -> Vec<String> {
        self.conditions().iter().map(|condition| canonical(&condition.at)).collect()
    }
}

fn exponents(
    written: std::collections::BTreeMap<String, u8>,
) -> Result<Vec<(Currency, u8)>, DefinitionFault> {
    const MOST_DECIMALS: u8 = 8;
    written
        .into_iter()
        .map(|(code, exponent)| match code.parse() {
            Ok(currency) if exponent <= MOST_DECIMALS => Ok((currency, exponent)),
            _ => fault(format!("\"exponents\" gives currency codes their decimals, 0 to {MOST_DECIMALS}")),
        })
        .collect()
}

fn time_format(unit: written::TimeUnit, offset: Option<String>) -> Result<TimeFormat, DefinitionFault> {
    let is_offset = |offset: &String| {
        let bytes = offset.as_bytes();
        let digits = |range: std::ops::Range<usize>| bytes[range].iter().all(u8::is_ascii_digit);
        bytes.len() == 6
            && matches!(bytes[0], b'+' | b'-')
            && digits(1..3)
            && bytes[3] == b':'
            && digits(4..6)
    };
    Ok(match (unit, offset) {
        (written::TimeUnit::Datetime, Some(offset)) if is_offset(&offset) => TimeFormat::Datetime { offset },
        (written::TimeUnit::Datetime, _) => return fault("a \"datetime\" has an \"offset\" such as +05:30"),
        (_, Some(_)) => return fault("an \"offset\" belongs to a \"datetime\""),
        (written::TimeUnit::Seconds, None) => TimeFormat::Seconds,
        (written::TimeUnit::Milliseconds, None) => TimeFormat::Milliseconds,
        (written::TimeUnit::Rfc3339, None) => TimeFormat::Rfc3339,
    })
}

fn document(written: written::Document) -> Result<Document, DefinitionFault> {
    let mut pointers = Pointers::default();
    let place = Place::compile(&written.from, &mut pointers).map_err(DefinitionFault)?;
    if !place.is_in_body() {
        return fault("event.document.from is a place in the body");
    }
    let base64 = matches!(written.encoding, written::DocumentEncoding::Base64);
    Ok(Document { pointers, place, base64 })
}

struct Compiler {
    pointers: Pointers,
    needs: Needs,
}

impl Compiler {
    fn place(&mut self, written: &str) -> Result<Place, DefinitionFault> {
        let place = Place::compile(written, &mut self.pointers).map_err(DefinitionFault)?;
        self.needs.add(&place);
        Ok(place)
    }

    fn sources(&mut self, written: Vec<written::Source>) -> Result<Sources, DefinitionFault> {
        let mut sources = Vec::new();
        for source in written {
            match source {
                written::Source::Place(place) => {
                    let kind = SourceKind::Place(self.place(&place)?);
                    sources.push(Source { kind, prefixes: Vec::new() });
                }
                written::Source::Prefixed(written::Prefixed { at, prefixes }) => {
                    if prefixes.is_empty() || prefixes.iter().any(String::is_empty) {
                        return fault("\"prefixes\" lists at least one prefix, and no empty one");
                    }
                    for place in at {
                        let kind = SourceKind::Place(self.place(&place)?);
                        sources.push(Source { kind, prefixes: prefixes.clone() });
                    }
                }
                written::Source::Joined(written::Joined { join, with }) => {
                    if join.len() < 2 {
                        return fault("\"join\" lists at least two places");
                    }
                    let places = join.iter().map(|place| self.place(place)).collect::<Result<_, _>>()?;
                    sources.push(Source { kind: SourceKind::Joined { places, with }, prefixes: Vec::new() });
                }
            }
        }
        Ok(sources)
    }

    fn references(
        &mut self,
        written: Vec<written::Reference>,
    ) -> Result<Vec<(String, Sources)>, DefinitionFault> {
        let mut compiled = Vec::new();
        for written::Reference { kind, from } in written {
            if let Err(why) = identifier::check(&kind) {
                return fault(format!("a reference kind is an identifier: {why}"));
            }
            if kind == BANK_REFERENCE_KIND {
                return fault("the reference kind \"bank\" is filled from bank_reference");
            }
            compiled.push((kind, self.sources(from)?));
        }
        compiled.sort_by(|(a, _), (b, _)| a.cmp(b));
        if let Some(pair) = compiled.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return fault(format!("the reference kind {:?} appears twice", pair[0].0));
        }
        Ok(compiled)
    }

    fn kinds(&mut self, rules: Vec<written::KindRule>) -> Result<Vec<KindRule>, DefinitionFault> {
        let mut compiled: Vec<KindRule> = Vec::new();
        for rule in rules {
            for event_type in &rule.types {
                compiled.push(KindRule {
                    event_type: event_type.clone(),
                    when: self.conditions(&rule.when)?,
                    kind: rule.kind,
                    amount: rule.amount.clone().map(|places| self.sources(places)).transpose()?,
                    gateway_order_id: rule
                        .gateway_order_id
                        .clone()
                        .map(|places| self.sources(places))
                        .transpose()?,
                    is_thin: rule.details.is_some(),
                });
            }
        }
        compiled.sort_by(|a, b| a.event_type.cmp(&b.event_type)); // stable: rules stay in their order
        let mut pairs = compiled.windows(2).map(|pair| (&pair[0], &pair[1]));
        match pairs.find(|(before, after)| before.when.is_empty() && before.event_type == after.event_type) {
            None => Ok(compiled),
            Some((_, after)) => fault(format!(
                "an earlier rule without \"when\" already decides the kind of {:?}",
                after.event_type
            )),
        }
    }

    fn conditions(&mut self, when: &written::When) -> Result<Vec<Condition>, DefinitionFault> {
        let compile = |condition: &written::Condition| {
            Ok(Condition { place: self.place(&condition.at)?, is: condition.is.clone() })
        };
        when.conditions().iter().map(compile).collect()
    }
}
