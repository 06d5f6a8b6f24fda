//! Compiles the part of a definition that says how a delivery is authenticated.

use std::collections::BTreeSet;

use super::definition as written;
use super::{DefinitionFault, fault};
use crate::domain::json::{self, Pointers};
use crate::domain::place::{Needs, Place, canonical};
use crate::domain::signature::{
    Characters, EachPart, Encoding, FieldList, FieldsOf, Filter, Format, Hash, Key, KeyEncoding, KeyForm,
    Method, Pairs, Part, Placeholder, Prefix, Repeated, Scheme, Template, TimestampFrom, TimestampRule,
    Tolerance, What,
};

/// What of a delivery a valid signature vouches for.
#[derive(Debug, Default, Clone)]
pub(crate) struct Coverage {
    /// The whole body, byte for byte.
    pub(crate) body: bool,
    /// The body through a function for which other bytes with the same result can be found.
    pub(crate) body_weakly: bool,
    /// The values of fields, and not their names.
    pub(crate) values_only: bool,
    /// Two parts follow each other without anything between them.
    pub(crate) borderless: bool,
    /// Fields are joined by a text that may stand in a field as well.
    pub(crate) borders_in_fields: bool,
    /// The message id, by all its places: which of them was sent is not signed.
    pub(crate) id: Vec<String>,
    /// These places.
    places: BTreeSet<String>,
    /// All fields of a form or the top of a JSON object, but these.
    fields: Option<(FieldsOf, Vec<String>)>,
}

impl Coverage {
    /// Whether what stands at a place is vouched for.
    pub(crate) fn of(&self, place: &str) -> bool {
        let in_fields = |name: &str| match &self.fields {
            Some((_, except)) => !except.iter().any(|except| except == name),
            None => false,
        };
        let by_fields = match &self.fields {
            Some((FieldsOf::Form, _)) => place.strip_prefix("form:").is_some_and(in_fields),
            Some((FieldsOf::Query, _)) => place.strip_prefix("query:").is_some_and(in_fields),
            Some((FieldsOf::Json, _)) => {
                let name = place.strip_prefix('/').filter(|name| !name.contains('/'));
                name.and_then(|name| json::unescape(name).ok()).is_some_and(|name| in_fields(&name))
            }
            None => false,
        };
        let is_ours = place.starts_with("text:") || place.starts_with("parameter:");
        let in_body = place.starts_with('/') || place.starts_with("form:");
        is_ours || (self.body && in_body) || self.places.contains(place) || by_fields
    }

    /// Nothing of the delivery.
    pub(crate) fn is_nothing(&self) -> bool {
        let parts = self.body || self.body_weakly || self.values_only || self.fields.is_some();
        !parts && self.places.is_empty() && self.id.is_empty()
    }

    /// What is vouched for whichever of two texts was signed.
    fn and(self, other: Self) -> Self {
        let fields = match (self.fields, other.fields) {
            (Some((of, except)), Some((other_of, other_except))) if of == other_of => {
                Some((of, [except, other_except].concat()))
            }
            _ => None,
        };
        Self {
            body: self.body && other.body,
            body_weakly: self.body_weakly || other.body_weakly,
            values_only: self.values_only || other.values_only,
            borderless: self.borderless || other.borderless,
            borders_in_fields: self.borders_in_fields || other.borders_in_fields,
            id: if self.id == other.id { self.id } else { Vec::new() },
            places: self.places.intersection(&other.places).cloned().collect(),
            fields,
        }
    }
}

pub(super) fn compile(verify: written::Verify) -> Result<(Scheme, Coverage), DefinitionFault> {
    let method = method(&verify)?;
    let key = key(verify.key, method)?;
    let mut pointers = Pointers::default();
    let mut needs = Needs::default();
    let mut texts = Vec::new();
    let mut coverage: Option<Coverage> = None;
    for text in verify.signed_text.into_iter().chain(verify.or_signed_text) {
        let mut compiler =
            TextCompiler { pointers: &mut pointers, needs: &mut needs, coverage: Coverage::default() };
        let template = compiler.template(text, &verify.id)?;
        let covered = compiler.coverage;
        coverage = Some(match coverage {
            None => covered,
            Some(before) => before.and(covered),
        });
        texts.push(template);
    }
    check_texts(method, &texts, verify.id.is_empty(), verify.timestamp.is_none())?;

    let signature = verify.signature;
    if signature.from.is_empty() {
        return fault("signature.from names at least one place");
    }
    let mut places = |written: Vec<String>| -> Result<Vec<Place>, DefinitionFault> {
        let compiled: Result<Vec<Place>, String> =
            written.iter().map(|place| Place::compile(place, &mut pointers)).collect();
        let compiled = compiled.map_err(DefinitionFault)?;
        compiled.iter().for_each(|place| needs.add(place));
        Ok(compiled)
    };
    let signature_places = places(signature.from)?;
    let id = places(verify.id)?;
    let (timestamp, timestamp_key) = match verify.timestamp {
        None => (None, None),
        Some(timestamp) => {
            let (rule, key) = timestamp_rule(timestamp, &mut places)?;
            (Some(rule), key)
        }
    };
    let characters = verify
        .characters
        .into_iter()
        .map(|(place, allowed)| {
            let place = places(vec![place])?.remove(0);
            Ok(Characters { place, allowed: characters(&allowed)? })
        })
        .collect::<Result<Vec<_>, DefinitionFault>>()?;
    let encoding = match (signature.encoding, method.is_credential()) {
        (None, true) => Encoding::Text,
        (None, false) => return fault("signature.encoding says how the signature is written"),
        (Some(_), true) => return fault("a token or Basic credentials have no signature.encoding"),
        (Some(written::Encoding::Hex), false) => Encoding::Hex,
        (Some(written::Encoding::HexLower), false) => Encoding::HexLower,
        (Some(written::Encoding::Base64), false) => Encoding::Base64,
        (Some(written::Encoding::Base64Url), false) => Encoding::Base64Url,
    };
    let scheme = Scheme {
        method,
        key,
        signed_texts: texts,
        characters,
        id,
        timestamp,
        signature: signature_places,
        format: format(signature.format, timestamp_key)?,
        encoding,
        undecodable: signature.undecodable,
        pointers,
        needs,
    };
    Ok((scheme, coverage.unwrap_or_default()))
}

fn method(verify: &written::Verify) -> Result<Method, DefinitionFault> {
    use written::Method as Written;
    let method = match verify.method {
        Written::HmacMd5 => Method::Hmac(Hash::Md5),
        Written::HmacSha1 => Method::Hmac(Hash::Sha1),
        Written::HmacSha256 => Method::Hmac(Hash::Sha256),
        Written::HmacSha384 => Method::Hmac(Hash::Sha384),
        Written::HmacSha512 => Method::Hmac(Hash::Sha512),
        Written::Md5 => Method::Hash(Hash::Md5),
        Written::Sha1 => Method::Hash(Hash::Sha1),
        Written::Sha256 => Method::Hash(Hash::Sha256),
        Written::Sha384 => Method::Hash(Hash::Sha384),
        Written::Sha512 => Method::Hash(Hash::Sha512),
        Written::RsaSha256 => Method::Rsa(Hash::Sha256),
        Written::RsaSha384 => Method::Rsa(Hash::Sha384),
        Written::RsaSha512 => Method::Rsa(Hash::Sha512),
        Written::Ed25519 => Method::Ed25519,
        Written::Token => Method::Token,
        Written::Basic => Method::Basic,
        Written::Aes128CbcSaltedSha256 => {
            let iv = verify.iv.as_deref().unwrap_or_default().as_bytes();
            let Ok(iv) = iv.try_into() else { return fault("\"iv\" is 16 characters of ASCII") };
            Method::AesSaltedSha256 { iv }
        }
    };
    match (method, &verify.iv) {
        (Method::AesSaltedSha256 { .. }, _) | (_, None) => Ok(method),
        (_, Some(_)) => fault("\"iv\" belongs to the method aes-128-cbc-salted-sha256 alone"),
    }
}

fn key(key: written::Key, method: Method) -> Result<KeyEncoding, DefinitionFault> {
    let (form, prefix) = match key {
        written::Key::Encoding(form) => (form, None),
        written::Key::Prefixed(key) => (key.encoding, key.prefix.filter(|prefix| !prefix.is_empty())),
    };
    match method {
        Method::Rsa(_) if form != KeyForm::Pem => fault("the key of an RSA method is \"pem\""),
        Method::Ed25519 if matches!(form, KeyForm::Utf8 | KeyForm::Sha1OfUtf8) => {
            fault("the key of ed25519 is \"pem\", \"base64\" or \"hex\"")
        }
        Method::Rsa(_) | Method::Ed25519 => Ok(KeyEncoding { prefix: prefix.map(Into::into), form }),
        _ if form == KeyForm::Pem => fault("a key in PEM is a public key, for RSA and ed25519"),
        Method::Token | Method::Basic if form != KeyForm::Utf8 => {
            fault("the key of a credential is \"utf8\"")
        }
        _ => Ok(KeyEncoding { prefix: prefix.map(Into::into), form }),
    }
}

fn check_texts(
    method: Method,
    texts: &[Template],
    without_id: bool,
    without_timestamp: bool,
) -> Result<(), DefinitionFault> {
    if method.is_credential() {
        return match (texts.is_empty(), without_id && without_timestamp) {
            (true, true) => Ok(()),
            (false, _) => fault("a token or Basic credentials sign nothing: leave signed_text out"),
            (true, false) => fault("a token or Basic credentials sign neither an id nor a timestamp"),
        };
    }
    if texts.is_empty() {
        return fault("signed_text says what is signed");
    }
    for text in texts {
        let has = |what: &What| text.placeholders().any(|placeholder| placeholder.what == *what);
        let is_hash = matches!(method, Method::Hash(_));
        if has(&What::Secret) != is_hash {
            return fault(match is_hash {
                true => {
                    "the signed text of a plain hash contains {secret}: without it, anybody could make the hash"
                }
                false => "signed_text contains {secret} only where the method is a plain hash",
            });
        }
        if has(&What::Timestamp) == without_timestamp {
            return fault(
                "signed_text contains {timestamp} exactly when there is a \"timestamp\" section: \
                 an unsigned timestamp proves nothing",
            );
        }
        if has(&What::Id) == without_id {
            return fault("signed_text contains {id} exactly when there is an \"id\" section");
        }
    }
    Ok(())
}

fn timestamp_rule(
    written: written::Timestamp,
    places: &mut impl FnMut(Vec<String>) -> Result<Vec<Place>, DefinitionFault>,
) -> Result<(TimestampRule, Option<String>), DefinitionFault> {
    let key = match written.from.as_slice() {
        [] => return fault("timestamp.from names at least one place"),
        [one] => one.strip_prefix("pair:").map(str::to_owned),
        _ => None,
    };
    let from = match &key {
        Some(_) => TimestampFrom::Pair,
        None => TimestampFrom::Places(places(written.from)?),
    };
    let rule = TimestampRule {
        from,
        unit: written.unit,
        tolerance: match written.tolerance_s {
            written::Tolerance::Unchecked(()) => Tolerance::default(),
            written::Tolerance::Both(seconds) => Tolerance::both(seconds),
            written::Tolerance::Each(each) => Tolerance { past_s: each.past, future_s: each.future },
        },
        repeated: match written.repeated {
            written::RepeatedTimestamp::Malformed => Repeated::Any,
            written::RepeatedTimestamp::Last => Repeated::Last,
        },
    };
    Ok((rule, key))
}

fn format(format: written::Format, timestamp_key: Option<String>) -> Result<Format, DefinitionFault> {
    let prefix = |text: String, optional| Prefix { text: text.into(), optional };
    let format = match format {
        written::Format::Plain(written::PlainFormat::Bare) => {
            Format::Bare { prefix: prefix(String::new(), false), until: None }
        }
        written::Format::Detailed(written::DetailedFormat::Bare(bare)) => Format::Bare {
            prefix: prefix(bare.prefix, bare.prefix_optional),
            until: match bare.until {
                Some(mark) if mark.is_empty() => return fault("\"until\" is not empty"),
                until => until.map(Into::into),
            },
        },
        written::Format::Detailed(written::DetailedFormat::List(list)) => {
            if list.separator.is_empty() {
                return fault("the separator of a list is not empty");
            }
            Format::List {
                separator: list.separator.into(),
                prefix: prefix(list.prefix, list.prefix_optional),
                trim: list.trim,
            }
        }
        written::Format::Detailed(written::DetailedFormat::Pairs(pairs)) => {
            return Ok(Format::Pairs(compile_pairs(pairs, timestamp_key)?));
        }
    };
    match timestamp_key {
        None => Ok(format),
        Some(_) => fault("a timestamp from a \"pair:\" needs a signature of format \"pairs\""),
    }
}

fn compile_pairs(pairs: written::Pairs, timestamp_key: Option<String>) -> Result<Pairs, DefinitionFault> {
    let (separator, assign) = (pairs.separator, pairs.assign);
    if separator.is_empty() || assign.is_empty() || separator == assign {
        return fault("\"separator\" and \"assign\" of pairs are two different texts");
    }
    let usable = |key: &str| !key.is_empty() && !key.contains(&separator) && !key.contains(&assign);
    let key = match pairs.key.strip_prefix("parameter:") {
        Some(name) => Key::Parameter(name.into()),
        None if usable(&pairs.key) => Key::Fixed(pairs.key.as_str().into()),
        None => return fault("a key of a pair is not empty and contains neither separator nor assign"),
    };
    if !timestamp_key.as_deref().is_none_or(usable) {
        return fault("a key of a pair is not empty and contains neither separator nor assign");
    }
    if timestamp_key.as_ref() == Some(&pairs.key) {
        return fault("signature and timestamp cannot have the same key");
    }
    Ok(Pairs {
        separator: separator.into(),
        assign: assign.into(),
        key,
        timestamp_key: timestamp_key.map(Into::into),
        trim: pairs.trim,
        ignore_case: pairs.ignore_case,
        repeated: pairs.repeated,
    })
}

/// A set of ASCII characters such as `A-Za-z0-9+/=`; a `-` at an end stands for itself.
fn characters(written: &str) -> Result<Box<[bool; 256]>, DefinitionFault> {
    let bytes = written.as_bytes();
    if !written.is_ascii() || bytes.is_empty() {
        return fault("\"characters\" lists ASCII characters and ranges of them");
    }
    let mut allowed = Box::new([false; 256]);
    let mut at = 0;
    while let Some(&first) = bytes.get(at) {
        let last = match bytes.get(at + 1..at + 3) {
            Some(&[b'-', last]) => {
                at += 3;
                last
            }
            _ => {
                at += 1;
                first
            }
        };
        if last < first {
            return fault("a range in \"characters\" goes upwards");
        }
        allowed[usize::from(first)..=usize::from(last)].fill(true);
    }
    Ok(allowed)
}

struct TextCompiler<'a> {
    pointers: &'a mut Pointers,
    needs: &'a mut Needs,
    coverage: Coverage,
}

impl TextCompiler<'_> {
    fn template(&mut self, text: written::SignedText, id: &[String]) -> Result<Template, DefinitionFault> {
        let parts = match text {
            written::SignedText::Text(text) => vec![written::TextPart::Text(text)],
            written::SignedText::Parts(parts) => parts,
        };
        let mut compiled = Vec::new();
        for part in parts {
            match part {
                written::TextPart::Text(text) => compiled.extend(self.text(&text, id)?),
                written::TextPart::IfPresent(written::IfPresent { if_present }) => {
                    let before = self.coverage.clone();
                    let inner = self.text(&if_present, id)?;
                    match inner.iter().filter(|part| matches!(part, Part::Placeholder(_))).count() {
                        0 => return fault("\"if_present\" contains a placeholder"),
                        // What is missing is unsigned, and nothing is read from there either.
                        1 => {}
                        // A neighbour that is missing takes the others out of the signed text.
                        _ => self.coverage = before,
                    }
                    compiled.push(Part::IfPresent(inner));
                }
                written::TextPart::Fields(written::Fields { fields }) => {
                    compiled.push(Part::Fields(self.fields(fields)?));
                }
            }
        }
        self.coverage.borderless |= compiled.windows(2).any(|pair| pair.iter().all(Part::varies));
        Ok(Template(compiled))
    }

    /// Parts of a text with placeholders.
    fn text(&mut self, text: &str, id: &[String]) -> Result<Vec<Part>, DefinitionFault> {
        split(text)?
            .into_iter()
            .map(|part| match part {
                Piece::Literal(literal) => Ok(Part::Literal(literal.into())),
                Piece::Placeholder(name) => Ok(Part::Placeholder(self.placeholder(name, id)?)),
            })
            .collect()
    }

    fn placeholder(&mut self, written: &str, id: &[String]) -> Result<Placeholder, DefinitionFault> {
        let mut names = written.split('|');
        let name = names.next().unwrap_or_default();
        let mut filters = Vec::new();
        for name in names {
            let Some(filter) = Filter::named(name) else {
                return fault(format!("there is no filter {name:?} in a signed text"));
            };
            filters.push(filter);
        }
        let collides = filters.iter().any(|filter| filter.can_collide());
        let what = match name {
            "body" => {
                self.coverage.body |= !collides;
                self.coverage.body_weakly |= collides;
                What::Body
            }
            "timestamp" => What::Timestamp,
            "id" => {
                self.coverage.id = id.iter().map(|place| canonical(place)).collect();
                if let [place] = self.coverage.id.as_slice() {
                    self.coverage.places.insert(place.clone());
                }
                What::Id
            }
            "secret" => What::Secret,
            _ => match Place::compile(name, self.pointers) {
                Err(_) if !name.contains([':', '/']) => {
                    return fault(format!("signed_text has no placeholder {{{name}}}"));
                }
                Err(why) => return Err(DefinitionFault(why)),
                Ok(place) => {
                    self.needs.add(&place);
                    if !collides {
                        self.coverage.places.insert(canonical(name));
                    }
                    What::Place(place)
                }
            },
        };
        Ok(Placeholder { what, filters })
    }

    fn fields(&mut self, written: written::FieldList) -> Result<FieldList, DefinitionFault> {
        let of = written.of;
        match of {
            FieldsOf::Form => self.needs.form = true,
            FieldsOf::Query => self.needs.query = true,
            FieldsOf::Json => self.needs.json = true,
        }
        let each = split(&written.each)?
            .into_iter()
            .map(|part| match part {
                Piece::Literal(literal) => Ok(EachPart::Literal(literal.into())),
                Piece::Placeholder("key") => Ok(EachPart::Key),
                Piece::Placeholder("value") => Ok(EachPart::Value),
                Piece::Placeholder(_) => fault("\"each\" has the placeholders {key} and {value}"),
            })
            .collect::<Result<Vec<_>, _>>()?;
        if !each.iter().any(|part| matches!(part, EachPart::Value)) {
            return fault("\"each\" contains {value}: what is not signed cannot be trusted");
        }
        match each.iter().any(|part| matches!(part, EachPart::Key)) {
            true => {
                self.coverage.fields = Some((of, written.except.clone()));
                self.coverage.borders_in_fields = true;
            }
            // Under other names the same values would pass.
            false => self.coverage.values_only = true,
        }
        Ok(FieldList {
            of,
            except: written.except.into_iter().map(Into::into).collect(),
            each,
            join: written.join.into(),
            skip_empty: written.skip_empty,
            empty: written.empty.into_iter().map(Into::into).collect(),
        })
    }
}

enum Piece<'a> {
    Literal(String),
    Placeholder(&'a str),
}

/// Splits at placeholders; `{{` and `}}` are braces.
fn split(text: &str) -> Result<Vec<Piece<'_>>, DefinitionFault> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        literal.push_str(&rest[..at]);
        let from = &rest[at..];
        if let Some(behind) = from.strip_prefix("{{").or_else(|| from.strip_prefix("}}")) {
            literal.push_str(&from[..1]);
            rest = behind;
            continue;
        }
        let Some((name, behind)) = from.strip_prefix('{').and_then(|inner| inner.split_once('}')) else {
            return fault("signed_text has a brace without its partner");
        };
        if !literal.is_empty() {
            pieces.push(Piece::Literal(std::mem::take(&mut literal)));
        }
        pieces.push(Piece::Placeholder(name));
        rest = behind;
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        pieces.push(Piece::Literal(literal));
    }
    Ok(pieces)
}
