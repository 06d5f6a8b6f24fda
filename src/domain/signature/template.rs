//! The text that a gateway signs, as a template: `{timestamp}.{body}`.

use std::borrow::Cow;

use md5::Md5;
use serde::Deserialize;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

use super::Malformed;
use crate::domain::json;
use crate::domain::place::{Place, Reading, Value};

/// A signed text, taken apart once. It is fed to the MAC part by part, so the body is not copied.
#[derive(Debug)]
pub(crate) struct Template(pub(crate) Vec<Part>);

#[derive(Debug)]
pub(crate) enum Part {
    Literal(Box<str>),
    Placeholder(Placeholder),
    /// Dropped where a placeholder in it has no text.
    IfPresent(Vec<Part>),
    Fields(FieldList),
}

#[derive(Debug)]
pub(crate) struct Placeholder {
    pub(crate) what: What,
    pub(crate) filters: Vec<Filter>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum What {
    Body,
    Timestamp,
    Id,
    Secret,
    Place(Place),
}

/// Changes a text on its way into the signed text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filter {
    /// CRC-32 (ISO 3309) as an unsigned decimal number.
    Crc32,
    Md5,
    Sha1,
    Sha256,
    Sha512,
    Hex,
    Base64,
    Lower,
    Upper,
    Trim,
}

/// All fields of a form, a query or a JSON object, sorted by name and joined.
#[derive(Debug)]
pub(crate) struct FieldList {
    pub(crate) of: FieldsOf,
    pub(crate) except: Vec<Box<str>>,
    /// With `{key}` and `{value}`.
    pub(crate) each: Vec<EachPart>,
    pub(crate) join: Box<str>,
    pub(crate) skip_empty: bool,
    /// Texts that count as empty.
    pub(crate) empty: Vec<Box<str>>,
}

/// Whose fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FieldsOf {
    /// A form body.
    Form,
    /// The query of the request's path.
    Query,
    /// The top of a JSON body; only scalars count.
    Json,
}

#[derive(Debug)]
pub(crate) enum EachPart {
    Literal(Box<str>),
    Key,
    Value,
}

/// A part of the signed text of one delivery.
pub(crate) enum Piece<'a> {
    Bytes(Cow<'a, [u8]>),
    /// Here stands the secret, changed by these.
    Secret(&'a [Filter]),
}

/// What a template is filled with.
pub(crate) struct Filling<'a> {
    pub(crate) body: &'a [u8],
    pub(crate) reading: &'a Reading<'a>,
    pub(crate) timestamp: &'a str,
    pub(crate) id: &'a str,
}

impl Template {
    /// All its placeholders.
    pub(crate) fn placeholders(&self) -> impl Iterator<Item = &Placeholder> {
        fn inner(part: &Part) -> &[Part] {
            match part {
                Part::IfPresent(parts) => parts,
                part => std::slice::from_ref(part),
            }
        }
        self.0.iter().flat_map(inner).filter_map(Part::placeholder)
    }

    /// The parameters of a source that always stand in it.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(Part::placeholder).filter_map(|placeholder| match &placeholder.what {
            What::Place(Place::Parameter(name)) => Some(name.as_ref()),
            _ => None,
        })
    }

    /// The pieces of the signed text, in order.
    pub(crate) fn fill<'a>(&'a self, with: &'a Filling<'a>) -> Result<Vec<Piece<'a>>, Malformed> {
        let mut pieces = Vec::with_capacity(self.0.len());
        for part in &self.0 {
            match part {
                Part::Literal(text) => pieces.push(Piece::Bytes(Cow::Borrowed(text.as_bytes()))),
                Part::Placeholder(placeholder) => pieces.push(placeholder.fill(with)?.unwrap_or_default()),
                Part::IfPresent(parts) => pieces.extend(if_present(parts, with)?.into_iter().flatten()),
                Part::Fields(list) => pieces.push(Piece::Bytes(Cow::Owned(list.text(with)?.into_bytes()))),
            }
        }
        Ok(pieces)
    }
}

impl Part {
    /// Whether a sender decides what stands there.
    pub(crate) fn varies(&self) -> bool {
        match self {
            Self::Literal(_) => false,
            Self::Fields(_) => true,
            Self::IfPresent(parts) => parts.last().is_some_and(Self::varies),
            Self::Placeholder(placeholder) => {
                !matches!(placeholder.what, What::Secret | What::Place(Place::Parameter(_) | Place::Text(_)))
            }
        }
    }

    fn placeholder(&self) -> Option<&Placeholder> {
        match self {
            Self::Placeholder(placeholder) => Some(placeholder),
            _ => None,
        }
    }
}

impl Default for Piece<'_> {
    fn default() -> Self {
        Self::Bytes(Cow::Borrowed(b""))
    }
}

fn if_present<'a>(parts: &'a [Part], with: &'a Filling<'a>) -> Result<Option<Vec<Piece<'a>>>, Malformed> {
    let mut pieces = Vec::with_capacity(parts.len());
    for part in parts {
        pieces.push(match part {
            Part::Literal(text) => Piece::Bytes(Cow::Borrowed(text.as_bytes())),
            Part::Placeholder(placeholder) => match placeholder.fill(with) {
                Ok(Some(piece)) => piece,
                Ok(None) | Err(Malformed::MissingPart) => return Ok(None),
                Err(why) => return Err(why),
            },
            Part::IfPresent(_) | Part::Fields(_) => unreachable!("a definition nests texts only"),
        });
    }
    Ok(Some(pieces))
}

impl Placeholder {
    /// What stands there; `None` where a part of the body or query is missing.
    fn fill<'a>(&'a self, with: &'a Filling<'a>) -> Result<Option<Piece<'a>>, Malformed> {
        let bytes: Cow<'a, [u8]> = match &self.what {
            What::Secret => return Ok(Some(Piece::Secret(&self.filters))),
            What::Body => Cow::Borrowed(with.body),
            What::Timestamp => Cow::Borrowed(with.timestamp.as_bytes()),
            What::Id => Cow::Borrowed(with.id.as_bytes()),
            What::Place(place) => match (with.reading.get(place)?, place) {
                (None, Place::Header(_) | Place::Parameter(_)) => return Err(Malformed::MissingPart),
                (None, _) => return Ok(None),
                (Some(value), _) => match value.into_text().ok_or(Malformed::Unparsable)? {
                    Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                    Cow::Owned(text) => Cow::Owned(text.into_bytes()),
                },
            },
        };
        Ok(Some(Piece::Bytes(filtered(&self.filters, bytes))))
    }
}

/// `bytes` after the filters, in order.
pub(crate) fn filtered<'a>(filters: &[Filter], bytes: Cow<'a, [u8]>) -> Cow<'a, [u8]> {
    filters.iter().fold(bytes, |bytes, filter| filter.apply(bytes))
}

impl Filter {
    /// The filter of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "crc32" => Self::Crc32,
            "md5" => Self::Md5,
            "sha1" => Self::Sha1,
            "sha256" => Self::Sha256,
            "sha512" => Self::Sha512,
            "hex" => Self::Hex,
            "base64" => Self::Base64,
            "lower" => Self::Lower,
            "upper" => Self::Upper,
            "trim" => Self::Trim,
            _ => return None,
        })
    }

    /// Whether other bytes that come out the same can be found.
    pub(crate) fn can_collide(self) -> bool {
        matches!(self, Self::Crc32 | Self::Md5 | Self::Sha1 | Self::Lower | Self::Upper | Self::Trim)
    }

    fn apply(self, bytes: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
        let changed = match self {
            Self::Crc32 => crc32fast::hash(&bytes).to_string().into_bytes(),
            Self::Md5 => Md5::digest(&bytes).to_vec(),
            Self::Sha1 => Sha1::digest(&bytes).to_vec(),
            Self::Sha256 => Sha256::digest(&bytes).to_vec(),
            Self::Sha512 => Sha512::digest(&bytes).to_vec(),
            Self::Hex => hex::encode(&bytes).into_bytes(),
            Self::Base64 => {
                use base64ct::{Base64, Encoding as _};
                Base64::encode_string(&bytes).into_bytes()
            }
            Self::Lower => bytes.to_ascii_lowercase(),
            Self::Upper => bytes.to_ascii_uppercase(),
            Self::Trim => bytes.trim_ascii().to_vec(),
        };
        Cow::Owned(changed)
    }
}

impl FieldList {
    fn text(&self, with: &Filling<'_>) -> Result<String, Malformed> {
        let mut text = String::new();
        let mut is_first = true;
        let mut write = |key: &str, value: &str| {
            let value = if self.empty.iter().any(|empty| **empty == *value) { "" } else { value };
            if self.except.iter().any(|except| **except == *key) || (self.skip_empty && value.is_empty()) {
                return;
            }
            if !std::mem::take(&mut is_first) {
                text.push_str(&self.join);
            }
            for part in &self.each {
                text.push_str(match part {
                    EachPart::Literal(literal) => literal,
                    EachPart::Key => key,
                    EachPart::Value => value,
                });
            }
        };
        match self.of {
            FieldsOf::Form => with.reading.form_fields().for_each(|(key, value)| write(key, value)),
            FieldsOf::Query => with.reading.query_fields().for_each(|(key, value)| write(key, value)),
            FieldsOf::Json => {
                let members = json::members(with.body).ok_or(Malformed::Unparsable)?;
                for (key, token) in &members {
                    match Value::of_json(*token) {
                        None => write(key, ""),
                        Some(Value::Container) => {}
                        Some(value) => write(key, &value.into_text().ok_or(Malformed::Unparsable)?),
                    }
                }
            }
        }
        Ok(text)
    }
}
