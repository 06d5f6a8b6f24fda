//! The one rule for identifiers that come from outside: event ids, order and payment references.
//!
//! An identifier is compared byte by byte and never trimmed, folded or normalised, so anything
//! that two readers could take for the same name while the bytes differ is refused at the door.

use std::fmt;

/// Longest identifier in bytes; what common gateways document, and small enough for a B-tree key.
pub const MAX_BYTES: usize = 255;

/// Why a text is not an identifier. The text itself is never repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdentifierFault {
    /// No byte at all.
    Empty,
    /// More than [`MAX_BYTES`] bytes of UTF-8.
    TooLong,
    /// A character with the Unicode property White_Space, at any position.
    Whitespace,
    /// A character of Unicode category Cc, NUL included.
    Control,
}

impl fmt::Display for IdentifierFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "it is empty",
            Self::TooLong => "it is longer than 255 bytes",
            Self::Whitespace => "it contains white space",
            Self::Control => "it contains a control character",
        })
    }
}

impl std::error::Error for IdentifierFault {}

/// Checks `text` against the rule: 1 to [`MAX_BYTES`] bytes, no white space, no control character.
///
/// # Errors
/// The first [`IdentifierFault`] found, length first.
pub fn check(text: &str) -> Result<(), IdentifierFault> {
    if text.is_empty() {
        return Err(IdentifierFault::Empty);
    }
    if text.len() > MAX_BYTES {
        return Err(IdentifierFault::TooLong);
    }
    if text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(()); // nearly every identifier there is
    }
    for character in text.chars() {
        // Tab and line feed are both; "white space" is the more helpful word for them.
        if character.is_whitespace() {
            return Err(IdentifierFault::Whitespace);
        }
        if character.is_control() {
            return Err(IdentifierFault::Control);
        }
    }
    Ok(())
}
