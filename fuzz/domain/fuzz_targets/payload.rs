//! Reads events out of arbitrary bodies with every shipped definition.
//!
//! An input is the index of the definition in one byte, and the body.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::{Corpus, fuzz_target};
use payment_idem::domain::event;
use payment_idem::domain::gateway::MAX_ITEMS;
use payment_idem::domain::place::{Parameters, Request};
use payment_idem::domain::signature::Headers;
use payment_idem_fuzz_domain::{check_event, exponents, payloads, shipped, write_seeds};
use serde_json::Value;

/// Of a bundle so many items are read.
const ITEMS_READ: usize = 50;

fuzz_target!(init: write_seeds(seeds), |data: &[u8]| -> Corpus { run(data) });

fn run(data: &[u8]) -> Corpus {
    let Some((index, body)) = data.split_first() else { return Corpus::Reject };
    let index = usize::from(*index);
    if index >= shipped().len() {
        return Corpus::Reject;
    }
    let gateway = &shipped()[index].gateway;
    let parameters = Parameters::new();
    let read = |body: &[u8]| {
        let request = Request { body, headers: Some(&HEADERS[index]), parameters: &parameters };
        let read = event::read(gateway, request, exponents());
        assert_eq!(read, event::read(gateway, request, exponents()), "the second reading differs");
        if let Ok(event) = &read {
            check_event(event);
        }
    };
    match gateway.items(body) {
        Some(Ok(items)) => {
            assert_eq!(gateway.items(body), Some(Ok(items.clone())));
            assert!((1..=MAX_ITEMS).contains(&items.len()));
            for item in items.into_iter().take(ITEMS_READ) {
                assert!(
                    serde_json::from_slice::<&serde_json::value::RawValue>(item).is_ok(),
                    "an item is no JSON"
                );
                read(item);
            }
        }
        Some(Err(_)) | None => read(body),
    }
    Corpus::Keep
}

/// For each definition the headers that it names, each with a usable value.
static HEADERS: LazyLock<Vec<Headers>> = LazyLock::new(|| {
    let of = |definition: &Value| {
        let mut names = Vec::new();
        collect(definition, &mut names);
        Headers::new(names.into_iter().map(|name| (name, "header-1")))
    };
    shipped().iter().map(|shipped| of(&shipped.json)).collect()
});

fn collect(json: &Value, names: &mut Vec<String>) {
    match json {
        Value::String(text) => names.extend(text.strip_prefix("header:").map(str::to_owned)),
        Value::Array(values) => values.iter().for_each(|value| collect(value, names)),
        Value::Object(members) => members.values().for_each(|value| collect(value, names)),
        _ => {}
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let seed = |(index, body): (u8, Vec<u8>)| [&[index], body.as_slice()].concat();
    payloads().into_iter().map(seed).collect()
}
