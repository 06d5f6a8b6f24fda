//! The event that a body reports, in the words of this extension.

use std::borrow::Cow;
use std::fmt;

use super::gateway::{BANK_REFERENCE_KIND, Condition, Gateway, KindRule, Scalar, Sources};
use super::identifier::{self, IdentifierFault};
use super::json::{self, Found, JsonFault, Token};
use super::kind::Kind;
use super::money::{self, Currency, MoneyFault};

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

/// The last second of the year 9999, in unix seconds.
const LAST_SECOND: i64 = 253_402_300_799;

/// Reads the event that the authentic `body` reports, by the rules of `gateway`.
///
/// What a mapped kind needs is read strictly. Of an event without effect (unmapped or
/// informational) only id, type and mode are, and whatever else is ill-formed counts as absent:
/// nobody should be called for an event that would have changed nothing.
///
/// # Errors
/// [`Unreadable`]; whatever the bytes are, never a panic.
pub fn read(gateway: &Gateway, body: &[u8]) -> Result<Event, Unreadable> {
    let map = gateway.mapping();
    let found = json::read(body, &map.pointers)
        .map_err(|why| Unreadable { fault: Fault::Json(why), event_id: None })?;
    let reader = Reader { found };
    let event_id = match reader.identifier(&map.id, Field::EventId) {
        Ok(None) if !map.id.0.is_empty() => Err(Fault::Missing(Field::EventId)),
        other => other,
    };
    let event_id = event_id.map_err(|fault| Unreadable { fault, event_id: None })?;
    reader.event(gateway, event_id.as_deref()).map_err(|fault| Unreadable { fault, event_id })
}

struct Reader<'a> {
    found: Found<'a>,
}

impl<'a> Reader<'a> {
    fn event(&self, gateway: &Gateway, event_id: Option<&str>) -> Result<Event, Fault> {
        let map = gateway.mapping();
        let event_type = self.event_type(&map.event_type)?;
        let live_mode = self.live_mode(&map.live_mode)?;
        let rule = self.rule(&map.kinds, &event_type);
        let kind = rule.map(|rule| rule.kind);
        let has_effect = !matches!(kind, None | Some(Kind::Informational));
        let identifier = |sources, field| match self.identifier(sources, field) {
            Err(_) if !has_effect => Ok(None),
            other => other,
        };

        let amount_sources = rule.and_then(|rule| rule.amount.as_ref());
        let amount_minor = match self.amount(amount_sources.unwrap_or(&map.amount)) {
            Err(_) if !has_effect => None,
            other => other?,
        };
        let order_reference = identifier(&map.order_reference, Field::OrderReference)?;
        let gateway_order_id = identifier(&map.gateway_order_id, Field::GatewayOrderId)?;
        if kind == Some(Kind::PaymentSucceeded) {
            if amount_minor.is_none() {
                return Err(Fault::Missing(Field::Amount));
            }
            if order_reference.is_none() && gateway_order_id.is_none() {
                return Err(Fault::NoOrder);
            }
        }

        // Gateways send "" here until the bank has answered.
        let bank_reference = match self.first(&map.bank_reference) {
            Some(Token::String("\"\"")) => None,
            _ => identifier(&map.bank_reference, Field::BankReference)?,
        };
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
            currency: self.currency(&map.currency),
            references,
            bank_reference,
            payer: self.payer(&map.payer),
            event_time_us: self.event_time_us(&map.event_time),
            live_mode,
        })
    }

    /// The first of `sources` that has a value.
    fn first(&self, sources: &Sources) -> Option<Token<'a>> {
        sources.0.iter().find_map(|source| {
            let token = self.found.get(source.slot)?;
            if source.prefixes.is_empty() {
                return Some(token);
            }
            let Token::String(raw) = token else {
                return None;
            };
            let text = json::decode(raw)?;
            let mut prefixes = source.prefixes.iter();
            prefixes.any(|p| text.starts_with(p.as_str())).then_some(token)
        })
    }

    /// An identifier: a string, or a plain integer, of which the digits are the identifier.
    fn identifier(&self, sources: &Sources, field: Field) -> Result<Option<String>, Fault> {
        let text = match self.first(sources) {
            None => return Ok(None),
            Some(Token::String(raw)) => json::decode(raw).ok_or(Fault::NotText(field))?,
            Some(Token::Number(digits)) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                Cow::Borrowed(digits)
            }
            Some(_) => return Err(Fault::WrongType(field)),
        };
        identifier::check(&text).map_err(|why| Fault::Identifier(field, why))?;
        Ok(Some(text.into_owned()))
    }

    fn event_type(&self, sources: &Sources) -> Result<String, Fault> {
        const FIELD: Field = Field::EventType;
        let text = match self.first(sources) {
            None => return Err(Fault::Missing(FIELD)),
            Some(Token::String(raw)) => json::decode(raw).ok_or(Fault::NotText(FIELD))?,
            Some(_) => return Err(Fault::WrongType(FIELD)),
        };
        let why = if text.is_empty() {
            IdentifierFault::Empty
        } else if text.len() > MAX_TEXT_BYTES {
            IdentifierFault::TooLong
        } else if text.chars().any(char::is_control) {
            IdentifierFault::Control
        } else {
            return Ok(text.into_owned()); // inner spaces are the gateway's own business
        };
        Err(Fault::Identifier(FIELD, why))
    }

    fn live_mode(&self, sources: &Sources) -> Result<Option<bool>, Fault> {
        match self.first(sources) {
            None => Ok(None),
            Some(Token::Bool(live)) => Ok(Some(live)),
            Some(_) => Err(Fault::WrongType(Field::LiveMode)),
        }
    }

    fn rule<'g>(&self, rules: &'g [KindRule], event_type: &str) -> Option<&'g KindRule> {
        let first = rules.partition_point(|rule| rule.event_type.as_str() < event_type);
        let of_type = |rule: &&KindRule| rule.event_type == event_type;
        let holds = |rule: &&KindRule| rule.when.as_ref().is_none_or(|when| self.holds(when));
        rules[first..].iter().take_while(of_type).find(holds)
    }

    fn holds(&self, condition: &Condition) -> bool {
        match self.found.get(condition.slot) {
            Some(Token::Bool(value)) => {
                let mut is = condition.is.iter();
                is.any(|scalar| matches!(scalar, Scalar::Bool(wanted) if *wanted == value))
            }
            Some(Token::String(raw)) => json::decode(raw).is_some_and(|value| {
                let mut is = condition.is.iter();
                is.any(|scalar| matches!(scalar, Scalar::Text(wanted) if **wanted == value))
            }),
            _ => false,
        }
    }

    fn amount(&self, sources: &Sources) -> Result<Option<i64>, Fault> {
        match self.first(sources) {
            None => Ok(None),
            Some(Token::Number(digits)) => {
                let minor = money::parse_minor_token(digits);
                minor.map(Some).map_err(Fault::Amount)
            }
            Some(_) => Err(Fault::WrongType(Field::Amount)),
        }
    }

    fn currency(&self, sources: &Sources) -> Option<Currency> {
        match self.first(sources)? {
            Token::String(raw) => json::decode(raw)?.parse().ok(),
            _ => None,
        }
    }

    /// Evidence only, so what cannot be stored as text is left to the payload.
    fn payer(&self, sources: &Sources) -> Option<String> {
        let Token::String(raw) = self.first(sources)? else {
            return None;
        };
        let text = json::decode(raw)?;
        let usable = (1..=MAX_TEXT_BYTES).contains(&text.len());
        (usable && !text.chars().any(char::is_control)).then(|| text.into_owned())
    }

    fn event_time_us(&self, sources: &Sources) -> Option<i64> {
        let Token::Number(digits) = self.first(sources)? else {
            return None;
        };
        let seconds = money::parse_minor_token(digits).ok()?;
        (0..=LAST_SECOND).contains(&seconds).then(|| seconds * 1_000_000)
    }
}
