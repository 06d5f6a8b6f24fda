//! The event that a body reports, in the words of this extension.

use std::borrow::Cow;
use std::fmt;

use base64ct::{Base64, Encoding as _};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::gateway::{
    AmountUnit, BANK_REFERENCE_KIND, Gateway, KindRule, LiveMode, Mapping, Scalar, Source, SourceKind,
    TimeFormat,
};
use super::identifier::{self, IdentifierFault};
use super::json::JsonFault;
use super::kind::Kind;
use super::money::{self, Currency, Exponents, MoneyFault};
use super::place::{Needs, Place, Reading, Request, Unusable, Value};
use super::signature::Malformed;

/// An id under which a gateway or a bank knows a payment, refund or dispute. References are
/// compared only within a kind; events that share one are about the same thing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// What the id names, in the words of the gateway's definition; `bank` for a bank's own.
    pub kind: String,
    /// The id, byte for byte.
    pub value: String,
}

/// The facts of one event. Identifiers satisfy [`identifier::check`].
#[derive(Clone, PartialEq, Eq)]
pub struct Event {
    /// The gateway's id of this event; `None` when it does not stand in the body.
    pub event_id: Option<String>,
    /// The gateway's own name of the type, at most 255 bytes without control characters.
    pub event_type: String,
    /// What it means; `None` when the definition does not know the type.
    pub kind: Option<Kind>,
    /// The merchant's name of the order (`client_txn_id`).
    pub order_reference: Option<String>,
    /// The gateway's name of the order.
    pub gateway_order_id: Option<String>,
    /// The merchant, in the words of the gateway.
    pub merchant_id: Option<String>,
    /// Minor units, any sign; always present when `kind` is [`Kind::PaymentSucceeded`].
    pub amount_minor: Option<i64>,
    /// `None` when missing or not a currency code: it then matches no order.
    pub currency: Option<Currency>,
    /// At most one per kind, sorted by kind.
    pub references: Vec<Reference>,
    /// The bank's reference (UTR, RRN); also in `references` under the kind `bank`.
    pub bank_reference: Option<String>,
    /// Who paid, such as a virtual payment address. Personal data.
    pub payer: Option<String>,
    /// When the gateway says it happened, in unix microseconds from 1970 to 9999; `None` when
    /// missing or unreadable, since a gateway's clock decides nothing about money.
    pub event_time_us: Option<i64>,
    /// Whether real money is meant; `None` when the body does not say.
    pub live_mode: Option<bool>,
    /// The event carries an id only: its facts have to be asked for.
    pub is_thin: bool,
}

impl Event {
    /// Whether anything could come of it: its type is mapped, and not as informational.
    #[must_use]
    pub fn has_effect(&self) -> bool {
        !matches!(self.kind, None | Some(Kind::Informational))
    }
}

impl fmt::Debug for Event {
    /// Everything but the payer.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("event_id", &self.event_id)
            .field("event_type", &self.event_type)
            .field("kind", &self.kind)
            .field("order_reference", &self.order_reference)
            .field("gateway_order_id", &self.gateway_order_id)
            .field("merchant_id", &self.merchant_id)
            .field("amount_minor", &self.amount_minor)
            .field("currency", &self.currency)
            .field("references", &self.references)
            .field("bank_reference", &self.bank_reference)
            .field("event_time_us", &self.event_time_us)
            .field("live_mode", &self.live_mode)
            .field("is_thin", &self.is_thin)
            .finish_non_exhaustive()
    }
}

/// A fact of an event, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// [`Event::event_id`].
    EventId,
    /// [`Event::event_type`].
    EventType,
    /// [`Event::order_reference`].
    OrderReference,
    /// [`Event::gateway_order_id`].
    GatewayOrderId,
    /// [`Event::merchant_id`].
    MerchantId,
    /// [`Event::amount_minor`].
    Amount,
    /// [`Event::bank_reference`].
    BankReference,
    /// One of [`Event::references`].
    Reference,
    /// [`Event::live_mode`].
    LiveMode,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EventId => "event id",
            Self::EventType => "event type",
            Self::OrderReference => "order reference",
            Self::GatewayOrderId => "gateway order id",
            Self::MerchantId => "merchant id",
            Self::Amount => "amount",
            Self::BankReference => "bank reference",
            Self::Reference => "payment reference",
            Self::LiveMode => "live mode",
        })
    }
}

/// Why an authentic body is not an event that can be acted on. Nothing of the body is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The body as a whole cannot be read.
    Json(JsonFault),
    /// The form body has a field twice: two readers would see two values.
    RepeatedField,
    /// The headers, of which some are facts, cannot be read.
    Headers(Malformed),
    /// The text that should hold the event is missing or not in its encoding.
    NoDocument,
    /// The delivery is not the bundle of events that the definition describes.
    NoItems,
    /// A fact that is needed is absent.
    Missing(Field),
    /// A fact is there, but in another JSON type.
    WrongType(Field),
    /// A string that holds a lone surrogate escape and so is no Unicode text.
    NotText(Field),
    /// A string that breaks the rule for identifiers.
    Identifier(Field, IdentifierFault),
    /// An amount that is not an exact number of minor units.
    Amount(MoneyFault),
    /// A payment that names no order, neither the merchant's nor the gateway's.
    NoOrder,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(why) => why.fmt(f),
            Self::RepeatedField => f.write_str("the body has the same field twice"),
            Self::Headers(why) => why.fmt(f),
            Self::NoDocument => f.write_str("the body holds no event in the expected encoding"),
            Self::NoItems => f.write_str("the body holds no events where they should be"),
            Self::Missing(field) => write!(f, "the {field} is missing"),
            Self::WrongType(field) => write!(f, "the {field} has the wrong JSON type"),
            Self::NotText(field) => write!(f, "the {field} is not Unicode text"),
            Self::Identifier(field, why) => write!(f, "the {field} is not usable: {why}"),
            Self::Amount(why) => why.fmt(f),
            Self::NoOrder => f.write_str("the payment names no order"),
        }
    }
}

/// An authentic body that cannot be acted on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Why.
    pub fault: Fault,
    /// The event id, where the document as a whole and the id in it are fine. For people who look
    /// for the event: an id in a body that cannot be read identifies nothing.
    pub event_id: Option<String>,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fault.fmt(f)
    }
}

impl std::error::Error for Unreadable {}

/// Longest event type, and longest payer that is kept, in bytes.
const MAX_TEXT_BYTES: usize = 255;

/// The last moment of the year 9999, in unix microseconds.
const LAST_MOMENT_US: i64 = 253_402_300_799_999_999;

/// Reads the event that the authentic `request` reports, by the rules of `gateway`. Its body is
/// that of the delivery or, where the delivery is a bundle, one item of it. `exponents` says how
/// many decimals a currency has.
///
/// What a mapped kind needs is read strictly. Of an event without effect (unmapped or
/// informational) only type and mode are, and its id if there is one; whatever else is ill-formed
/// counts as absent: nobody should be called for an event that would have changed nothing.
///
/// # Errors
/// [`Unreadable`]; whatever the bytes are, never a panic.
pub fn read(gateway: &Gateway, request: Request<'_>, exponents: &Exponents) -> Result<Event, Unreadable> {
    let map = gateway.mapping();
    let unreadable = |fault| Unreadable { fault, event_id: None };
    let document = document(map, request).map_err(unreadable)?;
    let body = document.as_deref().unwrap_or(request.body);
    let reading = Reading::of(Request { body, ..request }, &map.pointers, map.needs);
    let reader = Reader { reading: reading.map_err(|why| unreadable(why.into()))?, map, exponents };
    let event_id = match reader.identifier(&map.id, Field::EventId) {
        // What anybody could have written spoils nothing.
        Err(_) if !gateway.id_is_signed() => Ok(None),
        other => other,
    };
    let event_id = event_id.map_err(unreadable)?;
    let event = reader.event(event_id.as_deref());
    // Where a signed header holds it, it was there when the signature was judged.
    let lacks_id = event_id.is_none() && gateway.id_is_signed() && map.id.iter().any(Source::is_in_body);
    if lacks_id && event.as_ref().map_or(true, Event::has_effect) {
        return Err(unreadable(Fault::Missing(Field::EventId)));
    }
    event.map_err(|fault| Unreadable { fault, event_id })
}

impl From<Unusable> for Fault {
    fn from(why: Unusable) -> Self {
        match why {
            Unusable::Json(why) => Self::Json(why),
            Unusable::Repeated => Self::RepeatedField,
            Unusable::Headers(why) => Self::Headers(why),
        }
    }
}

/// The document inside the body, where the definition has one.
fn document(map: &Mapping, request: Request<'_>) -> Result<Option<Vec<u8>>, Fault> {
    let Some(document) = &map.document else { return Ok(None) };
    let reading = Reading::of(request, &document.pointers, Needs::of([&document.place]))?;
    let text = reading.get(&document.place)?.and_then(Value::into_text).ok_or(Fault::NoDocument)?;
    match document.base64 {
        true => Base64::decode_vec(&text).map(Some).map_err(|_| Fault::NoDocument),
        false => Ok(Some(text.into_owned().into_bytes())),
    }
}

struct Reader<'a> {
    reading: Reading<'a>,
    map: &'a Mapping,
    exponents: &'a Exponents,
}

impl Reader<'_> {
    fn event(&self, event_id: Option<&str>) -> Result<Event, Fault> {
        let map = self.map;
        let event_type = self.event_type(&map.event_type)?;
        let live_mode = self.live_mode(&map.live_mode)?;
        let rule = self.rule(&map.kinds, &event_type)?;
        let kind = rule.map(|rule| rule.kind);
        let is_thin = rule.is_some_and(|rule| rule.is_thin);
        let is_strict = !is_thin && !matches!(kind, None | Some(Kind::Informational));
        let identifier = |sources, field| match self.identifier(sources, field) {
            Err(_) if !is_strict => Ok(None),
            other => other,
        };

        let currency = self.currency(&map.currency)?;
        let amount_sources = rule.and_then(|rule| rule.amount.as_ref());
        let amount_minor = match self.amount(amount_sources.unwrap_or(&map.amount), currency) {
            Err(_) if !is_strict => None,
            other => other?,
        };
        let order_reference = identifier(&map.order_reference, Field::OrderReference)?;
        let gateway_order = rule.and_then(|rule| rule.gateway_order_id.as_ref());
        let gateway_order_id =
            identifier(gateway_order.unwrap_or(&map.gateway_order_id), Field::GatewayOrderId)?;
        if kind == Some(Kind::PaymentSucceeded) && !is_thin {
            if amount_minor.is_none() {
                return Err(Fault::Missing(Field::Amount));
            }
            if order_reference.is_none() && gateway_order_id.is_none() {
                return Err(Fault::NoOrder);
            }
        }

        let bank_reference = identifier(&map.bank_reference, Field::BankReference)?;
        let mut references = Vec::new();
        for (kind, sources) in &map.references {
            if let Some(value) = identifier(sources, Field::Reference)? {
                let kind = kind.clone();
                references.push(Reference { kind, value });
            }
        }
        if let Some(value) = bank_reference.clone() {
            let at = references.partition_point(|r| r.kind.as_str() < BANK_REFERENCE_KIND);
            let kind = BANK_REFERENCE_KIND.to_owned();
            references.insert(at, Reference { kind, value });
        }

        Ok(Event {
            event_id: event_id.map(str::to_owned),
            event_type,
            kind,
            order_reference,
            gateway_order_id,
            merchant_id: identifier(&map.merchant_id, Field::MerchantId)?,
            amount_minor,
            currency,
            references,
            bank_reference,
            payer: self.payer(&map.payer)?,
            event_time_us: self.event_time_us(&map.event_time)?,
            live_mode,
            is_thin,
        })
    }

    /// The first of `sources` that has a value.
    fn first<'r>(&'r self, sources: &'r [Source]) -> Result<Option<Value<'r>>, Fault> {
        for Source { kind, prefixes } in sources {
            let value = match kind {
                SourceKind::Place(place) => self.reading.get(place)?,
                SourceKind::Joined { places, with } => self.joined(places, with)?,
            };
            match value {
                Some(value) if prefixes.is_empty() => return Ok(Some(value)),
                Some(Value::Text(text))
                    if prefixes.iter().any(|prefix| text.starts_with(prefix.as_str())) =>
                {
                    return Ok(Some(Value::Text(text)));
                }
                _ => {}
            }
        }
        Ok(None)
    }

    fn joined(&self, places: &[Place], with: &str) -> Result<Option<Value<'_>>, Fault> {
        let mut parts = Vec::with_capacity(places.len());
        for place in places {
            let Some(text) = self.reading.get(place)?.and_then(Value::into_text) else { return Ok(None) };
            parts.push(text.into_owned());
        }
        Ok(Some(Value::Text(Cow::Owned(parts.join(with)))))
    }

    /// An identifier: a text, or a plain integer, of which the digits are the identifier.
    fn identifier(&self, sources: &[Source], field: Field) -> Result<Option<String>, Fault> {
        let text = match self.first(sources)? {
            None => return Ok(None),
            Some(Value::Text(text)) => text,
            Some(Value::NotText) => return Err(Fault::NotText(field)),
            Some(Value::Number(digits)) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                Cow::Borrowed(digits)
            }
            Some(_) => return Err(Fault::WrongType(field)),
        };
        identifier::check(&text).map_err(|why| Fault::Identifier(field, why))?;
        Ok(Some(text.into_owned()))
    }

    fn event_type(&self, sources: &[Source]) -> Result<String, Fault> {
        const FIELD: Field = Field::EventType;
        let text = match self.first(sources)? {
            None => return Err(Fault::Missing(FIELD)),
            Some(Value::Text(text)) => text,
            Some(Value::NotText) => return Err(Fault::NotText(FIELD)),
            Some(_) => return Err(Fault::WrongType(FIELD)),
        };
        let why = if text.len() > MAX_TEXT_BYTES {
            IdentifierFault::TooLong
        } else if text.chars().any(char::is_control) {
            IdentifierFault::Control
        } else {
            return Ok(text.into_owned()); // inner spaces are the gateway's own business
        };
        Err(Fault::Identifier(FIELD, why))
    }

    fn live_mode(&self, live_mode: &LiveMode) -> Result<Option<bool>, Fault> {
        let wrong = Err(Fault::WrongType(Field::LiveMode));
        match live_mode {
            LiveMode::Bool(from) => match self.first(from)? {
                None => Ok(None),
                Some(Value::Bool(live)) => Ok(Some(live)),
                Some(Value::Text(text)) => match text.as_ref() {
                    "true" => Ok(Some(true)),
                    "false" => Ok(Some(false)),
                    _ => wrong,
                },
                Some(_) => wrong,
            },
            LiveMode::Words { from, live } => match self.first(from)? {
                None => Ok(None),
                Some(Value::Text(text)) => Ok(Some(live.iter().any(|word| *word == text))),
                Some(_) => wrong,
            },
        }
    }

    fn rule<'g>(&self, rules: &'g [KindRule], event_type: &str) -> Result<Option<&'g KindRule>, Fault> {
        let first = rules.partition_point(|rule| rule.event_type.as_str() < event_type);
        for rule in rules[first..].iter().take_while(|rule| rule.event_type == event_type) {
            if self.holds(rule)? {
                return Ok(Some(rule));
            }
        }
        Ok(None)
    }

    fn holds(&self, rule: &KindRule) -> Result<bool, Fault> {
        for condition in &rule.when {
            let mut is = condition.is.iter();
            let holds = match self.reading.get(&condition.place)? {
                Some(Value::Bool(value)) => {
                    is.any(|scalar| matches!(scalar, Scalar::Bool(wanted) if *wanted == value))
                }
                Some(Value::Text(text)) => {
                    is.any(|scalar| matches!(scalar, Scalar::Text(wanted) if *wanted == text))
                }
                Some(Value::Number(digits)) => {
                    is.any(|scalar| matches!(scalar, Scalar::Text(wanted) if wanted == digits))
                }
                _ => false,
            };
            if !holds {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Minor units of the currency as ISO 4217 counts them.
    fn amount(&self, sources: &[Source], currency: Option<Currency>) -> Result<Option<i64>, Fault> {
        let value = match self.first(sources)? {
            None => return Ok(None),
            Some(value) => value,
        };
        let text = match &value {
            Value::Text(text) => text.as_ref(),
            Value::Number(digits) => digits,
            _ => return Err(Fault::WrongType(Field::Amount)),
        };
        let exponent = currency.and_then(|currency| self.exponents.of(currency));
        let own_exponent = currency.and_then(|currency| {
            let at = self.map.exponents.binary_search_by_key(&currency, |(currency, _)| *currency).ok()?;
            Some(self.map.exponents[at].1)
        });
        let minor = match (self.map.amount_unit, exponent, own_exponent) {
            (AmountUnit::Major, Some(exponent), _) => money::parse_major(text, exponent),
            (AmountUnit::Major, None, _) => Err(MoneyFault::UnknownCurrency),
            (AmountUnit::Minor, Some(exponent), Some(own)) if own != exponent => {
                money::parse_minor_token(text).and_then(|minor| money::rescale(minor, own, exponent))
            }
            (AmountUnit::Minor, ..) => money::parse_minor_token(text),
        };
        minor.map(Some).map_err(Fault::Amount)
    }

    fn currency(&self, sources: &[Source]) -> Result<Option<Currency>, Fault> {
        Ok(match self.first(sources)? {
            Some(Value::Text(text)) => text.parse().ok(),
            _ => None,
        })
    }

    /// Evidence only, so what cannot be stored as text is left to the payload.
    fn payer(&self, sources: &[Source]) -> Result<Option<String>, Fault> {
        let Some(Value::Text(text)) = self.first(sources)? else { return Ok(None) };
        let usable = text.len() <= MAX_TEXT_BYTES && !text.chars().any(char::is_control);
        Ok(usable.then(|| text.into_owned()))
    }

    /// `None` where it is not a moment: a gateway's clock decides nothing about money.
    fn event_time_us(&self, sources: &[Source]) -> Result<Option<i64>, Fault> {
        let text = self.first(sources)?.and_then(Value::into_text);
        Ok(text.and_then(|text| moment_us(&text, &self.map.time_format)))
    }
}

/// A moment in unix microseconds, from 1970 to 9999.
fn moment_us(text: &str, format: &TimeFormat) -> Option<i64> {
    let us = match format {
        TimeFormat::Seconds => money::parse_minor_token(text).ok()?.checked_mul(1_000_000)?,
        TimeFormat::Milliseconds => money::parse_minor_token(text).ok()?.checked_mul(1_000)?,
        TimeFormat::Rfc3339 => rfc3339_us(text)?,
        TimeFormat::Datetime { offset } => rfc3339_us(&format!("{}{offset}", text.replacen(' ', "T", 1)))?,
    };
    (0..=LAST_MOMENT_US).contains(&us).then_some(us)
}

fn rfc3339_us(text: &str) -> Option<i64> {
    let moment = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    i64::try_from(moment.unix_timestamp_nanos().div_euclid(1_000)).ok()
}
