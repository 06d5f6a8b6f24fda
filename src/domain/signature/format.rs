//! How candidate signatures, and for some gateways a timestamp, are laid out in a signature text.

use serde::Deserialize;

use super::Malformed;

/// Longest signature text in bytes that is looked at. Hundreds of signatures fit.
pub const MAX_SIGNATURE_BYTES: usize = 64 * 1024;

/// The layout of a signature text.
#[derive(Debug)]
pub(crate) enum Format {
    /// The text is one signature: behind a prefix, up to a mark.
    Bare { prefix: Prefix, until: Option<Box<str>> },
    /// Several signatures, those with the prefix being candidates.
    List { separator: Box<str>, prefix: Prefix, trim: bool },
    /// Pairs of key and value; keys may repeat and unknown ones are ignored.
    Pairs(Pairs),
}

/// What stands in front of a signature.
#[derive(Debug)]
pub(crate) struct Prefix {
    pub(crate) text: Box<str>,
    pub(crate) optional: bool,
}

impl Prefix {
    fn strip<'a>(&self, text: &'a str) -> Option<&'a str> {
        text.strip_prefix(self.text.as_ref()).or(self.optional.then_some(text))
    }
}

/// The layout `key=value,key=value`.
#[derive(Debug)]
pub(crate) struct Pairs {
    pub(crate) separator: Box<str>,
    pub(crate) assign: Box<str>,
    pub(crate) key: Key,
    /// The key whose value is the timestamp.
    pub(crate) timestamp_key: Option<Box<str>>,
    /// White space around keys and values does not count.
    pub(crate) trim: bool,
    /// Keys are compared without regard to ASCII case.
    pub(crate) ignore_case: bool,
    /// Which values of a repeated key are candidates.
    pub(crate) repeated: Repeated,
}

/// The key of the signature among pairs.
#[derive(Debug)]
pub(crate) enum Key {
    Fixed(Box<str>),
    /// The value of this parameter of the source.
    Parameter(Box<str>),
}

/// Which values of a repeated key count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Repeated {
    /// Each is a candidate.
    #[default]
    Any,
    /// The first.
    First,
    /// The last.
    Last,
}

impl Repeated {
    fn choose(self, mut values: Vec<&str>) -> Vec<&str> {
        match self {
            Self::Any => {}
            Self::First => values.truncate(1),
            Self::Last => drop(values.drain(..values.len().saturating_sub(1))),
        }
        values
    }
}

/// A signature text taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parsed<'a> {
    pub(crate) candidates: Vec<&'a str>,
    /// The values of the timestamp's key.
    pub(crate) timestamps: Vec<&'a str>,
}

impl Format {
    /// Takes `text` apart; `parameter` looks a parameter of the source up.
    pub(crate) fn parse<'a>(
        &self,
        text: &'a str,
        parameter: impl Fn(&str) -> Option<&'a str>,
    ) -> Result<Parsed<'a>, Malformed> {
        if text.is_empty() {
            return Err(Malformed::NoSignature);
        }
        if text.len() > MAX_SIGNATURE_BYTES {
            return Err(Malformed::SignatureTooLong);
        }
        let (candidates, timestamps): (Vec<_>, Vec<_>) = match self {
            Self::Bare { prefix, until } => {
                let end = until.as_deref().and_then(|mark| text.find(mark)).unwrap_or(text.len());
                (prefix.strip(&text[..end]).into_iter().collect(), Vec::new())
            }
            Self::List { separator, prefix, trim } => {
                let items = text.split(separator.as_ref());
                let items = items.map(|item| if *trim { item.trim() } else { item });
                let sent = items.filter(|item| !item.is_empty());
                (sent.filter_map(|item| prefix.strip(item)).collect(), Vec::new())
            }
            Self::Pairs(pairs) => {
                let key = match &pairs.key {
                    Key::Fixed(key) => key,
                    Key::Parameter(name) => parameter(name).ok_or(Malformed::MissingPart)?,
                };
                let timestamps = pairs.timestamp_key.as_deref().map(|key| pairs.values(text, key));
                (pairs.repeated.choose(pairs.values(text, key)), timestamps.unwrap_or_default())
            }
        };
        Ok(Parsed { candidates, timestamps })
    }
}

impl Pairs {
    fn values<'a>(&self, text: &'a str, wanted: &str) -> Vec<&'a str> {
        let trimmed = |part: &'a str| if self.trim { part.trim() } else { part };
        let is_wanted = |key: &str| match self.ignore_case {
            true => key.eq_ignore_ascii_case(wanted),
            false => key == wanted,
        };
        text.split(self.separator.as_ref())
            .filter_map(|pair| pair.split_once(self.assign.as_ref()))
            .map(|(key, value)| (trimmed(key), trimmed(value)))
            .filter(|(key, _)| is_wanted(key))
            .map(|(_, value)| value)
            .collect()
    }
}
