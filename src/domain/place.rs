//! Places: where in a delivery a text stands, and what stands there.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use super::form::{Ambiguous, Fields};
use super::json::{self, Found, JsonFault, Pointers, Slot, Token};
use super::signature::{Headers, Malformed};

/// Values that a source is configured with, such as the URL that a gateway signs along.
pub type Parameters = BTreeMap<String, String>;

/// One request as it came from outside.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The exact bytes of the request body.
    pub body: &'a [u8],
    /// The request's headers.
    pub headers: Option<&'a Headers>,
    /// What the source is configured with.
    pub parameters: &'a Parameters,
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Request({} bytes, ..)", self.body.len())
    }
}

/// A place, compiled: JSON pointers are slots of the definition's [`Pointers`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// A JSON pointer (RFC 6901) into the body.
    Json(Slot),
    /// A field of a form body.
    Form(Box<str>),
    /// A request header.
    Header(Box<str>),
    /// A parameter of the request path's query.
    Query(Box<str>),
    /// A value that the source is configured with.
    Parameter(Box<str>),
    /// The text itself.
    Text(Box<str>),
}

impl Place {
    /// Compiles a place as it is written in a definition.
    ///
    /// # Errors
    /// A sentence for whoever wrote it.
    pub(crate) fn compile(written: &str, pointers: &mut Pointers) -> Result<Self, String> {
        if written.starts_with('/') {
            let slot = pointers.add(written);
            return slot.map(Self::Json).map_err(|why| format!("{written:?} is not a place: {why}"));
        }
        let no_place = || {
            format!(
                "{written:?} is not a place: it begins with \"/\", \"form:\", \"header:\", \"query:\", \
                 \"parameter:\" or \"text:\""
            )
        };
        let (of, name) = written.split_once(':').ok_or_else(no_place)?;
        if name.is_empty() {
            return Err(format!("{written:?} is not a place: it names nothing"));
        }
        let name = name.into();
        Ok(match of {
            "form" => Self::Form(name),
            "header" => Self::Header(name),
            "query" => Self::Query(name),
            "parameter" => Self::Parameter(name),
            "text" => Self::Text(name),
            _ => return Err(no_place()),
        })
    }

    /// Whether the place lies in the body.
    pub(crate) fn is_in_body(&self) -> bool {
        matches!(self, Self::Json(_) | Self::Form(_))
    }
}

/// A place as it is written, or as it would be: a header's name has no case (RFC 9110, section 5.1).
pub(crate) fn canonical(written: &str) -> String {
    if written.starts_with("header:") { written.to_ascii_lowercase() } else { written.to_owned() }
}

/// What has to be parsed before places can be looked up.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Needs {
    pub(crate) json: bool,
    pub(crate) form: bool,
    pub(crate) query: bool,
}

impl Needs {
    pub(crate) fn of<'p>(places: impl IntoIterator<Item = &'p Place>) -> Self {
        let mut needs = Self::default();
        places.into_iter().for_each(|place| needs.add(place));
        needs
    }

    pub(crate) fn add(&mut self, place: &Place) {
        match place {
            Place::Json(_) => self.json = true,
            Place::Form(_) => self.form = true,
            Place::Query(_) => self.query = true,
            Place::Header(_) | Place::Parameter(_) | Place::Text(_) => {}
        }
    }
}

/// What stands at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// A text: a JSON string, a field, a header.
    Text(Cow<'a, str>),
    /// A JSON number, digit for digit.
    Number(&'a str),
    /// A JSON boolean.
    Bool(bool),
    /// A JSON string whose escapes are no Unicode text.
    NotText,
    /// A JSON object or array.
    Container,
}

/// Why a place cannot be looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// The body is not the JSON that the place is in.
    Json(JsonFault),
    /// A form or query has a field twice.
    Repeated,
    /// The header was sent twice with different values, or there is a flood of headers.
    Headers(Malformed),
}

impl From<Ambiguous> for Unusable {
    fn from(_: Ambiguous) -> Self {
        Self::Repeated
    }
}

/// A request, parsed as far as the places of a definition need it.
pub(crate) struct Reading<'a> {
    request: Request<'a>,
    json: Option<Found<'a>>,
    form: Option<Fields<'a>>,
    query: Option<Fields<'a>>,
}

impl<'a> Reading<'a> {
    /// Parses what `needs` says.
    pub(crate) fn of(request: Request<'a>, pointers: &Pointers, needs: Needs) -> Result<Self, Unusable> {
        let json = needs.json.then(|| json::read(request.body, pointers)).transpose();
        let query = || -> Result<_, Unusable> {
            let path = match request.headers {
                Some(headers) => headers.get(":path").map_err(Unusable::Headers)?,
                None => None,
            };
            let query = path.and_then(|path| path.split_once('?')).map_or("", |(_, query)| query);
            Ok(Fields::read(query.split('#').next().unwrap_or_default().as_bytes())?)
        };
        Ok(Self {
            request,
            json: json.map_err(Unusable::Json)?,
            form: needs.form.then(|| Fields::read(request.body)).transpose()?,
            query: needs.query.then(query).transpose()?,
        })
    }

    /// What stands at `place`; `None` where nothing does, a JSON `null`, or an empty text.
    pub(crate) fn get<'r>(&'r self, place: &'r Place) -> Result<Option<Value<'r>>, Unusable> {
        let text = match place {
            Place::Json(slot) => return Ok(self.json(*slot)),
            Place::Form(name) => self.form.as_ref().and_then(|form| form.get(name)),
            Place::Query(name) => self.query.as_ref().and_then(|query| query.get(name)),
            Place::Header(name) => match self.request.headers {
                Some(headers) => headers.get(name).map_err(Unusable::Headers)?,
                None => None,
            },
            Place::Parameter(name) => self.request.parameters.get(name.as_ref()).map(String::as_str),
            Place::Text(text) => Some(text.as_ref()),
        };
        Ok(text.filter(|text| !text.is_empty()).map(|text| Value::Text(Cow::Borrowed(text))))
    }

    fn json(&self, slot: Slot) -> Option<Value<'a>> {
        Value::of_json(self.json.as_ref()?.get(slot)?)
    }

    /// The fields of the form body, sorted by name.
    pub(crate) fn form_fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.form.iter().flat_map(Fields::iter)
    }

    /// The parameters of the query, sorted by name.
    pub(crate) fn query_fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.query.iter().flat_map(Fields::iter)
    }
}

impl<'a> Value<'a> {
    /// What a JSON token holds; `None` for `null` and the empty string.
    pub(crate) fn of_json(token: Token<'a>) -> Option<Self> {
        Some(match token {
            Token::Null | Token::String("\"\"") => return None,
            Token::Bool(value) => Self::Bool(value),
            Token::Number(digits) => Self::Number(digits),
            Token::String(raw) => json::decode(raw).map_or(Self::NotText, Self::Text),
            Token::Container => Self::Container,
        })
    }

    /// The scalar as text, a JSON boolean as `true` or `false`, a number as its own digits.
    pub(crate) fn into_text(self) -> Option<Cow<'a, str>> {
        match self {
            Self::Text(text) => Some(text),
            Self::Number(digits) => Some(Cow::Borrowed(digits)),
            Self::Bool(value) => Some(Cow::Borrowed(if value { "true" } else { "false" })),
            Self::NotText | Self::Container => None,
        }
    }
}
