//! Reads the few scalars a gateway definition asks for out of a JSON body (RFC 8259) that may be
//! hostile.
//!
//! Three steps, each linear in the length of the body and none of them recursive:
//! 1. UTF-8, without a byte order mark;
//! 2. `serde_json` judges the grammar of the whole text, and builds nothing;
//! 3. one walk over the text, now known to be JSON, finds what is wanted and refuses what two
//!    readers could understand differently: a key given twice, or nesting beyond [`MAX_DEPTH`].
//!
//! Numbers stay the digits that were sent. Strings are decoded only when somebody asks for them,
//! so an escaped NUL or a lone surrogate in a customer's name spoils nothing.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserializer as _, IgnoredAny, Visitor};
use serde_json::value::RawValue;

/// Deepest nesting of `[` and `{` together that is read. Real events use 5 to 10 levels; other
/// readers of the same evidence stop at 128 (`serde_json`) or overflow at several thousand.
pub const MAX_DEPTH: usize = 64;

/// Most keys of all objects of a body together. Real events have hundreds; comparing millions of them
/// takes seconds and hundreds of megabytes.
pub const MAX_KEYS: usize = 100_000;

/// Why a body cannot be read. Nothing of the body is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonFault {
    /// The bytes are not UTF-8 (RFC 8259, section 8.1).
    NotUtf8,
    /// A byte order mark in front, which RFC 8259 forbids to send.
    ByteOrderMark,
    /// Not exactly one JSON value.
    Syntax {
        /// Line of the fault, from 1.
        line: usize,
        /// Column of the fault, in bytes.
        column: usize,
    },
    /// One object has the same key twice, after decoding: two readers would see two values.
    DuplicateKey,
    /// Nested deeper than [`MAX_DEPTH`].
    TooDeep,
    /// More than [`MAX_KEYS`] keys.
    TooManyKeys,
}

impl fmt::Display for JsonFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotUtf8 => f.write_str("the body is not UTF-8"),
            Self::ByteOrderMark => f.write_str("the body begins with a byte order mark"),
            Self::Syntax { line, column } => {
                write!(f, "the body is not one JSON value (line {line}, column {column})")
            }
            Self::DuplicateKey => f.write_str("an object in the body has the same key twice"),
            Self::TooDeep => write!(f, "the body is nested deeper than {MAX_DEPTH} levels"),
            Self::TooManyKeys => write!(f, "the body has more than {MAX_KEYS} keys"),
        }
    }
}

impl std::error::Error for JsonFault {}

/// Why a text is not a JSON pointer that this reader follows (RFC 6901).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PointerFault {
    /// It does not begin with `/`. The empty pointer, the whole document, is of no use here.
    NoSlash,
    /// A `~` that is not part of `~0` or `~1`.
    BadEscape,
}

impl fmt::Display for PointerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSlash => "a JSON pointer begins with \"/\"",
            Self::BadEscape => "in a JSON pointer \"~\" stands only in \"~0\" and \"~1\"",
        })
    }
}

impl std::error::Error for PointerFault {}

/// Handle of one wanted pointer, given by [`Pointers::add`] and redeemed by [`Found::get`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot(usize);

/// A set of JSON pointers, kept as one tree so that a walk over a document serves them all.
#[derive(Debug)]
pub struct Pointers {
    nodes: Vec<Node>,
    slots: usize,
}

/// One place in a document that is wanted, or on the way to one.
#[derive(Debug, Default)]
struct Node {
    children: Vec<Child>,
    slot: Option<Slot>,
}

#[derive(Debug)]
struct Child {
    key: Box<[u8]>,
    /// The same segment read as an array index: `0`, or digits without a leading zero.
    index: Option<usize>,
    node: NodeId,
}

type NodeId = usize;
const ROOT: NodeId = 0;

impl Default for Pointers {
    fn default() -> Self {
        Self { nodes: vec![Node::default()], slots: 0 }
    }
}

impl Pointers {
    /// Adds `pointer`; the same pointer again gives the same slot.
    ///
    /// # Errors
    /// [`PointerFault`] when `pointer` does not follow RFC 6901 or is empty.
    pub fn add(&mut self, pointer: &str) -> Result<Slot, PointerFault> {
        let path = pointer.strip_prefix('/').ok_or(PointerFault::NoSlash)?;
        let mut at = ROOT;
        for segment in path.split('/') {
            at = self.child_or_new(at, unescape(segment)?);
        }
        let fresh = Slot(self.slots);
        let slot = *self.nodes[at].slot.get_or_insert(fresh);
        if slot == fresh {
            self.slots += 1;
        }
        Ok(slot)
    }

    fn child_or_new(&mut self, parent: NodeId, key: String) -> NodeId {
        if let Some(node) = self.by_key(parent, key.as_bytes()) {
            return node;
        }
        let node = self.nodes.len();
        self.nodes.push(Node::default());
        self.nodes[parent].children.push(Child {
            index: array_index(&key),
            key: key.into_bytes().into_boxed_slice(),
            node,
        });
        node
    }

    fn by_key(&self, parent: NodeId, key: &[u8]) -> Option<NodeId> {
        let mut children = self.nodes[parent].children.iter();
        children.find(|c| *c.key == *key).map(|c| c.node)
    }

    fn by_index(&self, parent: NodeId, index: usize) -> Option<NodeId> {
        let mut children = self.nodes[parent].children.iter();
        children.find(|c| c.index == Some(index)).map(|c| c.node)
    }
}

/// A segment of a JSON pointer as the name that it stands for (RFC 6901, section 4).
pub(crate) fn unescape(segment: &str) -> Result<String, PointerFault> {
    let mut after_tilde = segment.split('~').skip(1);
    if after_tilde.any(|rest| !rest.starts_with(['0', '1'])) {
        return Err(PointerFault::BadEscape);
    }
    Ok(segment.replace("~1", "/").replace("~0", "~")) // in this order: RFC 6901, section 4
}

fn array_index(segment: &str) -> Option<usize> {
    let canonical = segment == "0" || !segment.starts_with(['0', '+']);
    segment.parse().ok().filter(|_| canonical)
}

/// What stands at a wanted place, as the text that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, digit for digit.
    Number(&'a str),
    /// A string with its quotes and escapes; [`decode`] reads it.
    String(&'a str),
    /// An object or an array.
    Container,
}

/// The scalars found at the wanted pointers of one document.
#[derive(Debug)]
pub struct Found<'a>(Vec<Option<Token<'a>>>);

impl<'a> Found<'a> {
    /// What stands at the pointer of `slot`; `None` when it is absent or `null`.
    #[must_use]
    pub fn get(&self, slot: Slot) -> Option<Token<'a>> {
        self.0.get(slot.0).copied().flatten().filter(|token| *token != Token::Null)
    }
}

/// Reads `body` and returns what stands at the `wanted` pointers.
///
/// # Errors
/// [`JsonFault`]; whatever the bytes are, never a panic.
pub fn read<'a>(body: &'a [u8], wanted: &Pointers) -> Result<Found<'a>, JsonFault> {
    let text = std::str::from_utf8(body).map_err(|_| JsonFault::NotUtf8)?;
    if text.starts_with('\u{feff}') {
        return Err(JsonFault::ByteOrderMark);
    }
    serde_json::from_str::<IgnoredAny>(text)
        .map_err(|fault| JsonFault::Syntax { line: fault.line(), column: fault.column() })?;
    Walk {
        text,
        at: 0,
        wanted,
        open: Vec::with_capacity(16),
        keys: Vec::with_capacity(64),
        keys_left: MAX_KEYS,
        found: vec![None; wanted.slots],
    }
    .run()
}

/// The text of a [`Token::String`]; `None` when its escapes hold a lone surrogate, which no
/// Unicode text can contain.
#[must_use]
pub fn decode(token: &str) -> Option<Cow<'_, str>> {
    match plain(token) {
        Some(inner) => Some(Cow::Borrowed(inner)),
        None => serde_json::from_str(token).ok().map(Cow::Owned),
    }
}

/// The inside of a string token that has no escapes, which is nearly every one.
fn plain(token: &str) -> Option<&str> {
    let inner = token.strip_prefix('"')?.strip_suffix('"')?;
    (!inner.contains('\\')).then_some(inner)
}

/// A key as bytes, in which a lone surrogate has a place too (WTF-8): keys are only compared.
fn decode_key(token: &str) -> Cow<'_, [u8]> {
    struct Bytes;
    impl Visitor<'_> for Bytes {
        type Value = Vec<u8>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }
        fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
            Ok(bytes.to_vec())
        }
    }
    if let Some(inner) = plain(token) {
        return Cow::Borrowed(inner.as_bytes());
    }
    let decoded = serde_json::Deserializer::from_str(token).deserialize_bytes(Bytes);
    decoded.map_or(Cow::Borrowed(token.as_bytes()), Cow::Owned)
}

/// The walk of step 3. It relies on `text` being JSON for its answers, not for its safety.
struct Walk<'a, 'w> {
    text: &'a str,
    at: usize,
    wanted: &'w Pointers,
    /// The containers around `at`, outermost first.
    open: Vec<Open>,
    /// The keys of all open objects, each object's behind those of the objects around it.
    keys: Vec<Cow<'a, [u8]>>,
    /// How many more the body may have.
    keys_left: usize,
    found: Vec<Option<Token<'a>>>,
}

struct Open {
    node: Option<NodeId>,
    kind: Kind,
}

enum Kind {
    Array {
        next_index: usize,
    },
    Object {
        /// Where this object's keys begin in [`Walk::keys`].
        first_key: usize,
        /// A string that comes now is a key, not a value.
        key_is_next: bool,
        /// Node of the value that the last key announced.
        value: Option<NodeId>,
    },
}

impl<'a> Walk<'a, '_> {
    fn run(mut self) -> Result<Found<'a>, JsonFault> {
        while let Some(&byte) = self.text.as_bytes().get(self.at) {
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' => self.white_space(),
                b':' => self.at += 1,
                b',' => {
                    self.at += 1;
                    if let Some(Kind::Object { key_is_next, .. }) = self.innermost() {
                        *key_is_next = true;
                    }
                }
                b'"' => {
                    let token = self.string();
                    if let Some(Kind::Object { key_is_next: true, .. }) = self.innermost() {
                        self.key(token)?;
                    } else {
                        self.value(Token::String(token));
                    }
                }
                b'{' | b'[' => self.open(byte)?,
                b'}' | b']' => self.close()?,
                _ => {
                    let token = self.literal();
                    self.value(token);
                }
            }
        }
        Ok(Found(self.found))
    }

    fn innermost(&mut self) -> Option<&mut Kind> {
        self.open.last_mut().map(|open| &mut open.kind)
    }

    fn key(&mut self, token: &'a str) -> Result<(), JsonFault> {
        self.keys_left = self.keys_left.checked_sub(1).ok_or(JsonFault::TooManyKeys)?;
        let key = decode_key(token);
        if let Some(open) = self.open.last_mut()
            && let Kind::Object { key_is_next, value, .. } = &mut open.kind
        {
            *key_is_next = false;
            *value = open.node.and_then(|node| self.wanted.by_key(node, &key));
        }
        self.keys.push(key);
        Ok(())
    }

    /// Takes note of the value that begins here, where it is wanted; returns its place.
    fn value(&mut self, token: Token<'a>) -> Option<NodeId> {
        let node = match self.open.last_mut() {
            None => Some(ROOT),
            Some(Open { kind: Kind::Object { value, .. }, .. }) => value.take(),
            Some(Open { node, kind: Kind::Array { next_index } }) => {
                let index = *next_index;
                *next_index += 1;
                node.and_then(|node| self.wanted.by_index(node, index))
            }
        };
        if let Some(slot) = node.and_then(|node| self.wanted.nodes[node].slot) {
            self.found[slot.0] = Some(token);
        }
        node
    }

    fn open(&mut self, bracket: u8) -> Result<(), JsonFault> {
        if self.open.len() == MAX_DEPTH {
            return Err(JsonFault::TooDeep);
        }
        let node = self.value(Token::Container);
        let kind = if bracket == b'[' {
            Kind::Array { next_index: 0 }
        } else {
            Kind::Object { first_key: self.keys.len(), key_is_next: true, value: None }
        };
        self.open.push(Open { node, kind });
        self.at += 1;
        Ok(())
    }

    fn close(&mut self) -> Result<(), JsonFault> {
        if let Some(Open { kind: Kind::Object { first_key, .. }, .. }) = self.open.pop() {
            // Sorting finds duplicates in n log n whatever the keys are; a hash table would need
            // a secret seed to promise as much. Length first settles most comparisons.
            let keys = &mut self.keys[first_key..];
            keys.sort_unstable_by(|a, b| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
            if keys.windows(2).any(|pair| pair[0] == pair[1]) {
                return Err(JsonFault::DuplicateKey);
            }
            self.keys.truncate(first_key);
        }
        self.at += 1;
        Ok(())
    }

    fn white_space(&mut self) {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let is_other = |byte: &u8| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        self.at += rest.iter().position(is_other).unwrap_or(rest.len());
    }

    /// The string token that begins at `at`, quotes included.
    fn string(&mut self) -> &'a str {
        let start = self.at;
        let bytes = self.text.as_bytes();
        self.at += 1;
        loop {
            self.at += quote_or_backslash(bytes.get(self.at..).unwrap_or_default());
            match bytes.get(self.at) {
                Some(b'\\') => self.at += 2,
                _ => break,
            }
        }
        self.at += 1;
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// The number, `true`, `false` or `null` that begins at `at`.
    fn literal(&mut self) -> Token<'a> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let is_end = |byte: &u8| matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r');
        let end = rest.as_bytes().iter().position(is_end).unwrap_or(rest.len());
        let token = rest.get(..end).unwrap_or_default();
        self.at += end.max(1);
        literal(token)
    }
}

/// Offset of the first quote or backslash in `bytes`, or their length. Looks at eight bytes at a
/// time, since bodies are mostly strings.
fn quote_or_backslash(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_le_bytes([0x01; 8]);
    const HIGHS: u64 = u64::from_le_bytes([0x80; 8]);
    // The lowest byte of the result that is not zero stands where the first `wanted` does.
    let marks = |word: u64, wanted: u8| {
        let zero_where_wanted = word ^ (ONES * u64::from(wanted));
        zero_where_wanted.wrapping_sub(ONES) & !zero_where_wanted & HIGHS
    };
    let (words, rest) = bytes.as_chunks::<8>();
    for (n, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let found = marks(word, b'"') | marks(word, b'\\');
        if found != 0 {
            return n * 8 + (found.trailing_zeros() / 8) as usize;
        }
    }
    let in_rest = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'));
    words.len() * 8 + in_rest.unwrap_or(rest.len())
}

/// The members of the object that `body` is, sorted by name; `None` where it is none. To be called
/// after [`read`], which refuses a member given twice.
#[must_use]
pub(crate) fn members(body: &[u8]) -> Option<Vec<(String, Token<'_>)>> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_slice(body).ok()?;
    Some(members.into_iter().map(|(key, value)| (key, token_of(value.get()))).collect())
}

fn token_of(text: &str) -> Token<'_> {
    match text.as_bytes().first() {
        Some(b'"') => Token::String(text),
        Some(b'{' | b'[') => Token::Container,
        _ => literal(text),
    }
}

/// The number, `true`, `false` or `null` that a text is.
fn literal(text: &str) -> Token<'_> {
    match text {
        "null" => Token::Null,
        "true" => Token::Bool(true),
        "false" => Token::Bool(false),
        number => Token::Number(number),
    }
}

/// Where the elements of one array of a document stand: a JSON pointer with one `*` in it.
#[derive(Debug)]
pub(crate) struct Elements {
    before: Vec<String>,
    after: Vec<String>,
}

impl Elements {
    /// Compiles a pointer such as `/events/*`.
    ///
    /// # Errors
    /// A sentence for whoever wrote it.
    pub(crate) fn compile(pointer: &str) -> Result<Self, String> {
        let path = pointer.strip_prefix('/').ok_or(PointerFault::NoSlash.to_string())?;
        let mut before = Vec::new();
        let mut after = None;
        for segment in path.split('/') {
            match (segment, &mut after) {
                ("*", None) => after = Some(Vec::new()),
                ("*", Some(_)) => return Err(format!("{pointer:?} has more than one \"*\"")),
                (name, None) => before.push(unescape(name).map_err(|why| why.to_string())?),
                (name, Some(after)) => after.push(unescape(name).map_err(|why| why.to_string())?),
            }
        }
        let after = after.ok_or_else(|| format!("{pointer:?} has no \"*\" for the elements of an array"))?;
        Ok(Self { before, after })
    }

    /// The text of each element, as it was sent; `None` where the document has no such array.
    /// To be called after [`read`], which refuses a member given twice.
    pub(crate) fn of<'a>(&self, body: &'a [u8]) -> Option<Vec<&'a [u8]>> {
        let whole: &RawValue = serde_json::from_slice(body).ok()?;
        let array = descend(whole, &self.before)?;
        let elements: Vec<&RawValue> = serde_json::from_str(array.get()).ok()?;
        // An element of another shape is one by itself, and spoils no other.
        let item = |element| descend(element, &self.after).unwrap_or(element).get().as_bytes();
        Some(elements.into_iter().map(item).collect())
    }
}

fn descend<'a>(from: &'a RawValue, path: &[String]) -> Option<&'a RawValue> {
    path.iter().try_fold(from, |value, name| {
        let members: BTreeMap<String, &RawValue> = serde_json::from_str(value.get()).ok()?;
        members.get(name).copied()
    })
}

/// What serde_json says of a document, without the place: a `jsonb` has no lines.
#[must_use]
pub fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what).to_owned()
}
