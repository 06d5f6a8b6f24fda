//! `define_gateway`, and the definitions that are shipped.

use include_dir::{Dir, include_dir};
use pgrx::iter::TableIterator;
use pgrx::{JsonB, name, notice, pg_extern};

use crate::api::access::{Profile, require_all_tenants};
use crate::domain::gateway::Gateway;
use crate::domain::identifier;
use crate::pg::caller::as_owner;
use crate::pg::error::{invalid, required, sentence};
use crate::pg::jsonb::JsonText;
use crate::store::gateways;

/// One file per gateway, named after it: no code knows any of them.
static BUILT_IN: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/gateways");

#[pg_extern(sql = false)]
fn define_gateway(name: Option<&str>, definition: Option<JsonText>) {
    let name = required(name, "name");
    let definition = required(definition, "definition").0;
    if let Err(fault) = identifier::check(name) {
        invalid("name", sentence(&fault), "Name the gateway in a word.")
    }
    if !definition.starts_with('{') {
        invalid("definition", "It is not a JSON object.", "See payment_idem.gateways for examples.")
    }
    let gateway = compile(&definition);
    as_owner(|caller| {
        require_all_tenants(caller, Profile::Admin);
        gateways::define(name, &definition, gateway.covers_body(), gateway.remarks());
    });
    for remark in gateway.remarks() {
        notice!("{remark}");
    }
}

#[pg_extern(sql = false)]
fn builtin_gateways() -> TableIterator<
    'static,
    (name!(gateway, String), name!(definition, JsonB), name!(covers_body, bool), name!(remarks, Vec<String>)),
> {
    TableIterator::new(BUILT_IN.files().map(|file| {
        let name = file.path().file_stem().and_then(|stem| stem.to_str()).expect("a file has a name");
        let definition = file.contents_utf8().expect("a definition is UTF-8");
        let json = serde_json::from_str(definition).expect("a shipped definition is JSON");
        let gateway = compile(definition);
        (name.to_owned(), JsonB(json), gateway.covers_body(), gateway.remarks().to_vec())
    }))
}

fn compile(definition: &str) -> Gateway {
    Gateway::from_json(definition).unwrap_or_else(|fault| {
        invalid(
            "definition",
            sentence(&fault),
            "docs/GATEWAYS.md has the language, and the definitions that are shipped are examples: see payment_idem.gateways.",
        )
    })
}
