//! A gateway as data: its JSON definition, checked and compiled once, interpreted per delivery.
//!
//! No gateway is known to the code by name. A definition says how a delivery is authenticated
//! (`verify`) and which texts of it are which facts of an event (`event`).

mod definition;
mod mapping;
mod scheme;

use std::fmt;

pub(super) use mapping::{AmountUnit, KindRule, LiveMode, Mapping, Scalar, Source, SourceKind, TimeFormat};

use super::json::{self, Elements, Pointers};
use super::signature::{Malformed, Scheme};
use definition as written;

/// The kind under which a bank's own reference (UTR, RRN) counts as a payment reference.
pub const BANK_REFERENCE_KIND: &str = "bank";

/// Most events of one delivery; one with more is refused as a whole. Gateways bundle up to a few hundred.
pub const MAX_ITEMS: usize = 10_000;

/// What is wrong with a definition, as a sentence for whoever wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionFault(String);

impl fmt::Display for DefinitionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DefinitionFault {}

/// Refuses a definition with a sentence.
fn fault<T>(sentence: impl Into<String>) -> Result<T, DefinitionFault> {
    Err(DefinitionFault(sentence.into()))
}

/// A compiled gateway definition. It never changes; share it by reference or `Rc`.
#[derive(Debug)]
pub struct Gateway {
    description: String,
    items: Option<Elements>,
    per_item: bool,
    scheme: Scheme,
    mapping: Mapping,
    covers_body: bool,
    id_is_signed: bool,
    remarks: Vec<String>,
}

impl Gateway {
    /// Reads and checks a definition.
    ///
    /// # Errors
    /// [`DefinitionFault`] when `json` is not a definition, or one that could never work.
    pub fn from_json(json: &str) -> Result<Self, DefinitionFault> {
        let definition: written::Definition = serde_json::from_str(json).map_err(|error| {
            DefinitionFault(format!("not a gateway definition: {}", json::without_place(&error)))
        })?;
        let items =
            definition.items.as_deref().map(Elements::compile).transpose().map_err(DefinitionFault)?;
        let per_item = definition.verify.per_item;
        if per_item && items.is_none() {
            return fault("\"per_item\" needs \"items\": where the items are");
        }
        let (scheme, coverage) = scheme::compile(definition.verify)?;
        let (mapping, facts) = Mapping::compile(definition.event)?;
        let unsigned = |places: &[String]| places.iter().any(|place| !coverage.of(place));
        let loose: Vec<&str> =
            facts.iter().filter(|(_, places)| unsigned(places)).map(|(name, _)| *name).collect();
        let is_message_id = facts.iter().any(|(name, places)| *name == "id" && *places == coverage.id);
        let loose: Vec<&str> = loose.into_iter().filter(|name| *name != "id" || !is_message_id).collect();
        let id_is_signed = mapping.id_identifies && !mapping.id.is_empty() && !loose.contains(&"id");
        Ok(Self {
            description: definition.description,
            items,
            per_item,
            covers_body: coverage.body,
            id_is_signed,
            remarks: remarks(&coverage, &loose),
            scheme,
            mapping,
        })
    }

    /// One line for people.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Whether a valid signature vouches for every byte of the body.
    #[must_use]
    pub fn covers_body(&self) -> bool {
        self.covers_body
    }

    /// What a valid signature does not vouch for, in sentences.
    #[must_use]
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Whether the event id is signed and the event's own. Where it is not, the digest of the body
    /// identifies the event.
    #[must_use]
    pub fn id_is_signed(&self) -> bool {
        self.id_is_signed
    }

    /// Whether an id is one event's own; where several events share it, a second one is no news.
    #[must_use]
    pub fn id_identifies(&self) -> bool {
        self.mapping.id_identifies
    }

    /// Whether the event's type stands in its body. Where it does not, the same bytes may be several
    /// events.
    #[must_use]
    pub fn type_is_in_body(&self) -> bool {
        self.mapping.event_type.iter().any(mapping::Source::is_in_body)
    }

    /// How its deliveries are authenticated.
    #[must_use]
    pub fn scheme(&self) -> &Scheme {
        &self.scheme
    }

    /// Whether every item of a delivery bears a signature of its own.
    #[must_use]
    pub fn signs_items(&self) -> bool {
        self.per_item
    }

    /// The items of a delivery, each as it was sent; `None` where a delivery is one event.
    ///
    /// # Errors
    /// [`Malformed`] where the body is not the bundle that the definition describes, or has no
    /// items, or more than [`MAX_ITEMS`].
    pub fn items<'a>(&self, body: &'a [u8]) -> Option<Result<Vec<&'a [u8]>, Malformed>> {
        let elements = self.items.as_ref()?;
        let items = || {
            json::read(body, &Pointers::default()).map_err(|_| Malformed::Unparsable)?;
            let items = elements.of(body).ok_or(Malformed::NoItems)?;
            if items.is_empty() || items.len() > MAX_ITEMS {
                return Err(Malformed::NoItems);
            }
            Ok(items)
        };
        Some(items())
    }

    pub(super) fn mapping(&self) -> &Mapping {
        &self.mapping
    }
}

fn remarks(coverage: &scheme::Coverage, loose: &[&str]) -> Vec<String> {
    let is_credential = coverage.is_nothing();
    let mut remarks = Vec::new();
    if is_credential {
        remarks.push(
            "The credential vouches for the caller and for nothing in the body: whoever has seen one delivery can \
             write any event. Confirm payments at the gateway's API."
                .to_owned(),
        );
    } else if coverage.body {
        // Every byte of it.
    } else if coverage.body_weakly {
        remarks.push(
            "The signature covers a checksum of the body only, and other bodies with the same checksum can be made."
                .to_owned(),
        );
    } else if coverage.values_only {
        remarks.push("The signature covers the values of fields, and not their names.".to_owned());
    } else {
        remarks.push("The signature covers parts of the delivery, not the whole body.".to_owned());
    }
    if coverage.borderless {
        remarks.push(
            "Parts of the signed text follow each other without a border: what ends one may begin the next."
                .to_owned(),
        );
    }
    if coverage.borders_in_fields {
        remarks.push(
            "Fields are joined as they are: one that holds what stands between two could have been several."
                .to_owned(),
        );
    }
    if !is_credential && !loose.is_empty() {
        remarks.push(format!("The signature does not vouch for: {}.", loose.join(", ")));
    }
    remarks
}

#[cfg(test)]
mod tests {
    //! The published schema (docs/gateway.schema.json) is that of the types, and of what is shipped.

    use super::written::Definition;
    use serde_json::Value;

    const ROOT: &str = env!("CARGO_MANIFEST_DIR");

    fn schema() -> Value {
        let schema = schemars::schema_for!(Definition);
        serde_json::to_value(schema).unwrap()
    }

    /// `UPDATE_SCHEMA=1 cargo test --no-default-features schema` writes it anew.
    #[test]
    fn the_published_schema_is_that_of_the_types() {
        let path = format!("{ROOT}/docs/gateway.schema.json");
        let text = format!("{:#}\n", schema());
        if std::env::var_os("UPDATE_SCHEMA").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        assert!(std::fs::read_to_string(path).unwrap() == text, "docs/gateway.schema.json is out of date");
    }

    #[test]
    fn every_shipped_definition_is_valid_by_the_schema() {
        let validator = jsonschema::validator_for(&schema()).unwrap();
        for file in std::fs::read_dir(format!("{ROOT}/gateways")).unwrap() {
            let path = file.unwrap().path();
            let definition: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            let faults: Vec<String> =
                validator.iter_errors(&definition).map(|fault| fault.to_string()).collect();
            assert!(faults.is_empty(), "{}: {}", path.display(), faults.join("; "));
        }
        let nonsense = serde_json::json!({"description": "", "verify": {}, "event": {}});
        assert!(!validator.is_valid(&nonsense));
    }
}
