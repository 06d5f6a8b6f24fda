//! Reads `application/x-www-form-urlencoded` text: a form body, or the query of a request's path
//! (URL Standard, section 5).

use std::borrow::Cow;

/// Most fields of one text that are read. Real callbacks have dozens.
pub const MAX_FIELDS: usize = 1_000;

/// The decoded fields of one text, sorted by name.
#[derive(Debug, Default)]
pub struct Fields<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

/// The text has a field twice, or too many: two readers could see two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ambiguous;

impl<'a> Fields<'a> {
    /// Reads `text`. Bytes that are not UTF-8 become replacement characters.
    ///
    /// # Errors
    /// [`Ambiguous`] for a field given twice, and beyond [`MAX_FIELDS`].
    pub fn read(text: &'a [u8]) -> Result<Self, Ambiguous> {
        let mut fields: Vec<_> = form_urlencoded::parse(text).take(MAX_FIELDS + 1).collect();
        fields.sort_by(|(a, _), (b, _)| a.cmp(b));
        if fields.len() > MAX_FIELDS || fields.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(Ambiguous);
        }
        Ok(Self(fields))
    }

    /// The value of the field `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|(known, _)| known.as_ref().cmp(name)).ok()?;
        Some(&self.0[at].1)
    }

    /// Names and values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), value.as_ref()))
    }
}
