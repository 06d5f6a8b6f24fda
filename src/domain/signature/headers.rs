//! The headers of one request, as far as they are kept.

use std::fmt;

use super::Malformed;

/// Most bytes of header names and values together that are kept.
pub const MAX_HEADER_BYTES: usize = 128 * 1024;

/// Most fields that are kept; each look-up reads all their names. Servers allow about a hundred.
const MAX_FIELDS: usize = 1_000;

/// The headers of one request. Names are compared without regard to ASCII case (RFC 9110,
/// section 5.1); values are kept as they are.
#[derive(Default)]
pub struct Headers {
    fields: Vec<(String, String)>,
    oversized: bool,
}

impl Headers {
    /// Keeps `fields`. Beyond [`MAX_HEADER_BYTES`] or a thousand fields nothing more is kept and
    /// every look-up fails, so that a flood of headers becomes a malformed delivery, not an error.
    pub fn new<N, V>(fields: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: Into<String>,
        V: Into<String>,
    {
        let mut headers = Self::default();
        let mut room = MAX_HEADER_BYTES;
        for (name, value) in fields {
            let (name, value) = (name.into(), value.into());
            match room.checked_sub(name.len().saturating_add(value.len())) {
                Some(left) if headers.fields.len() < MAX_FIELDS => room = left,
                _ => {
                    headers.oversized = true;
                    break;
                }
            }
            headers.fields.push((name, value));
        }
        headers
    }

    /// All values that are kept.
    pub(crate) fn values(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(_, value)| value.as_str())
    }

    /// The value of the header `name`, `None` when it was not sent.
    ///
    /// # Errors
    /// [`Malformed::AmbiguousHeader`] when it was sent more than once with different values: who
    /// is to say which one the gateway wrote? [`Malformed::HeadersTooLarge`] after an overflow.
    pub fn get(&self, name: &str) -> Result<Option<&str>, Malformed> {
        if self.oversized {
            return Err(Malformed::HeadersTooLarge);
        }
        let mut values = self
            .fields
            .iter()
            .filter(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str());
        let first = values.next();
        if values.any(|other| Some(other) != first) {
            return Err(Malformed::AmbiguousHeader);
        }
        Ok(first)
    }
}

impl fmt::Debug for Headers {
    /// Names only: values hold signatures and whatever else was sent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.fields.iter().map(|(name, _)| name)).finish()
    }
}
