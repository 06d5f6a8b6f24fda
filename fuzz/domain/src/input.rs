//! The bytes of an input of the target `delivery`, in both directions.
//!
//! Five bytes of choices, then texts, each closed by 0xFF, which no UTF-8 holds: a definition, a secret, headers and
//! parameters (lines of `name=value`), the moment in unix seconds; the rest is the body.

use std::borrow::Cow;

/// The definition is the text; else the shipped one of `index`.
pub const WRITTEN: u8 = 1;
/// The signature is an argument: the first header's value, or ours.
pub const ARGUMENT: u8 = 1 << 1;
/// Any age passes.
pub const ANY_AGE: u8 = 1 << 2;
/// Five minutes, whatever the definition says.
pub const FIVE_MINUTES: u8 = 1 << 3;
/// The inspector may try a second secret.
pub const OTHER_SECRET: u8 = 1 << 4;

/// A moment near which the known answers lie.
pub const NOW: i64 = 1_764_590_430;

const END: u8 = 0xFF;

#[derive(Debug, Default, Clone)]
pub struct Input<'a> {
    pub choices: u8,
    pub index: u8,
    /// Which bits of which byte of the body are turned over, to see that the signature covers it.
    pub flip: [u8; 3],
    pub definition: Cow<'a, str>,
    pub secret: Cow<'a, str>,
    pub headers: Vec<(String, String)>,
    pub parameters: Vec<(String, String)>,
    pub now: i64,
    pub body: &'a [u8],
}

impl<'a> Input<'a> {
    pub fn of(bytes: &'a [u8]) -> Option<Self> {
        let (&[choices, index, ref flip @ ..], rest) = bytes.split_first_chunk::<5>()?;
        let mut parts = rest.splitn(6, |byte| *byte == END);
        let mut text = || parts.next().map(String::from_utf8_lossy);
        Some(Self {
            choices,
            index,
            flip: *flip,
            definition: text()?,
            secret: text()?,
            headers: pairs(&text()?),
            parameters: pairs(&text()?),
            now: text()?.parse().unwrap_or(NOW),
            body: parts.next()?,
        })
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let lines = |pairs: &[(String, String)]| {
            pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("\n")
        };
        let texts = [
            self.definition.to_string(),
            self.secret.to_string(),
            lines(&self.headers),
            lines(&self.parameters),
            self.now.to_string(),
        ];
        let mut bytes = vec![self.choices, self.index];
        bytes.extend(self.flip);
        for text in texts {
            bytes.extend(text.as_bytes());
            bytes.push(END);
        }
        bytes.extend(self.body);
        bytes
    }

    /// `body`, which is not empty, with one byte changed.
    pub fn flipped(&self, body: &[u8]) -> Vec<u8> {
        let [bits, high, low] = self.flip;
        let mut body = body.to_vec();
        let at = usize::from(u16::from_be_bytes([high, low])) % body.len();
        body[at] ^= bits.max(1);
        body
    }
}

fn pairs(lines: &str) -> Vec<(String, String)> {
    let pairs = lines.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}
