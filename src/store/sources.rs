//! `payment_idem.sources`: everything a call needs to know before it looks at its body, kept per
//! backend until a configuration change commits.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use pgrx::Uuid;

use crate::domain::gateway::Gateway;
use crate::domain::money::Exponents;
use crate::domain::order::Rules;
use crate::domain::outcome::HttpStatuses;
use crate::domain::place::Parameters;
use crate::domain::signature::{AgeCheck, Secret};
use crate::pg::caller::Caller;
use crate::pg::invalidation;
use crate::pg::moment::Moment;
use crate::pg::statement::{arg, run_latest, statement};
use crate::store::{currencies, gateways, signing_secrets, transition_rules};

/// A source, ready for use: its definition compiled, its secrets keyed.
pub struct Source {
    /// Its name within the tenant.
    pub name: String,
    /// The name of its gateway.
    pub gateway_name: String,
    /// The gateway's compiled definition.
    pub gateway: Gateway,
    /// The merchant whose orders it pays; `None`: any.
    pub merchant_id: Option<String>,
    /// Whether it carries real money.
    pub live_mode: bool,
    /// Whether the event id is under the signature.
    pub id_signed: bool,
    /// The longest body that is accepted, in bytes.
    pub max_payload_bytes: usize,
    /// Whether raw bytes are kept as evidence.
    pub keep_payload: bool,
    /// Overrides the definition's tolerance, in seconds.
    pub tolerance_s: Option<u32>,
    /// What the gateway signs or names beside the request, such as the URL of the endpoint.
    pub parameters: Parameters,
    /// The decimals of the accepted currencies.
    pub exponents: Exponents,
    /// What to answer the gateway.
    pub http_statuses: HttpStatuses,
    /// The tenant's allowed moves.
    pub rules: Rules,
    /// Where a bank reference must be unique: the tenant, or the nil uuid for the whole database.
    pub bank_scope: Uuid,
    secrets: Vec<(Secret, Moment, Option<Moment>)>,
}

impl Source {
    /// Which ages of a signed timestamp pass.
    pub fn age_check(&self) -> AgeCheck {
        self.tolerance_s.map_or(AgeCheck::Definition, AgeCheck::Seconds)
    }

    /// The secrets that are valid at a moment.
    pub fn secrets_at(&self, moment: Moment) -> Vec<&Secret> {
        self.secrets
            .iter()
            .filter(|(_, from, until)| *from <= moment && until.is_none_or(|until| moment < until))
            .map(|(secret, _, _)| secret)
            .collect()
    }
}

statement!(
    FIND,
    "SELECT s.gateway, g.definition::text, s.merchant_id, s.live_mode, s.id_signed, s.max_payload_bytes, \
            s.keep_payload, s.tolerance_s, s.http_status::text, \
            CASE t.bank_reference_scope WHEN 'database' THEN '00000000-0000-0000-0000-000000000000' ELSE t.tenant END, \
            s.parameters::text \
     FROM payment_idem.sources s \
     JOIN payment_idem.tenants t USING (tenant) JOIN payment_idem.gateways g USING (gateway) \
     WHERE s.tenant = $1 AND s.source = $2",
    [UUIDOID, TEXTOID]
);
statement!(
    CONFIGURATION,
    "SELECT t.tgrelid FROM pg_catalog.pg_trigger t \
     WHERE t.tgfoid = pg_catalog.to_regprocedure('payment_idem.configuration_changed()')",
    []
);
statement!(
    CREATE,
    "INSERT INTO payment_idem.sources (tenant, source, gateway, merchant_id, live_mode, id_signed, max_payload_bytes, \
                                       keep_payload, tolerance_s, http_status, parameters) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::jsonb, $11::jsonb) \
     ON CONFLICT (tenant, source) DO NOTHING RETURNING 1",
    [UUIDOID, TEXTOID, TEXTOID, TEXTOID, BOOLOID, BOOLOID, INT4OID, BOOLOID, INT4OID, TEXTOID, TEXTOID]
);
// A statement of its own: a rival that the one above waited for is seen only by a new one.
statement!(
    IS_SAME,
    "SELECT 1 FROM payment_idem.sources s \
     WHERE s.tenant = $1 AND s.source = $2 AND s.gateway = $3 \
       AND (s.merchant_id, s.id_signed, s.tolerance_s) IS NOT DISTINCT FROM ($4, $6, $9) \
       AND (s.live_mode, s.max_payload_bytes, s.keep_payload, s.http_status, s.parameters) \
           = ($5, $7, $8, $10::jsonb, $11::jsonb)",
    [UUIDOID, TEXTOID, TEXTOID, TEXTOID, BOOLOID, BOOLOID, INT4OID, BOOLOID, INT4OID, TEXTOID, TEXTOID]
);

/// The facts of a source to be made.
pub struct NewSource<'a> {
    /// Its gateway.
    pub gateway: &'a str,
    /// Its merchant; `None`: any.
    pub merchant_id: Option<&'a str>,
    /// Whether it carries real money.
    pub live_mode: bool,
    /// Whether the event id is signed; `None`: as the definition says.
    pub id_signed: Option<bool>,
    /// The longest body, in bytes.
    pub max_payload_bytes: i32,
    /// Whether raw bytes are kept.
    pub keep_payload: bool,
    /// Tolerance in seconds; `None`: as the definition says.
    pub tolerance_s: Option<i32>,
    /// HTTP status overrides, as JSON text.
    pub http_status: String,
    /// Parameters, as JSON text.
    pub parameters: String,
}

/// Makes the source, or finds it as it is to be; `false` where it exists with other facts.
pub fn create(tenant: Uuid, source: &str, facts: &NewSource<'_>) -> bool {
    let arguments = [
        arg(tenant),
        arg(source),
        arg(facts.gateway),
        arg(facts.merchant_id),
        arg(facts.live_mode),
        arg(facts.id_signed),
        arg(facts.max_payload_bytes),
        arg(facts.keep_payload),
        arg(facts.tolerance_s),
        arg(facts.http_status.as_str()),
        arg(facts.parameters.as_str()),
    ];
    let made = CREATE.with(|statement| statement.run(&arguments));
    !made.is_empty() || !IS_SAME.with(|statement| statement.run_latest(&arguments)).is_empty()
}

/// Above this many kept sources, a backend starts anew: a bound, not a tuning knob.
const MAX_KEPT: usize = 1024;

#[derive(PartialEq, Eq, Hash)]
struct Key {
    caller: Caller,
    tenant: [u8; 16],
    source: String,
}

#[derive(Default)]
struct Kept {
    generation: u64,
    sources: HashMap<Key, Rc<Source>>,
}

thread_local! {
    static KEPT: RefCell<Kept> = RefCell::default();
}

/// The source, from this backend's memory or the tables.
///
/// `allowed` is asked whether the caller may act for the tenant, whenever the source is not in
/// memory; it raises where not. `None` where the tenant has no such source.
pub fn get(caller: Caller, tenant: Uuid, source: &str, allowed: impl FnOnce()) -> Option<Rc<Source>> {
    let generation = invalidation::generation();
    let key = Key { caller, tenant: *tenant.as_bytes(), source: source.to_owned() };
    let kept = KEPT.with_borrow_mut(|kept| {
        if kept.generation != generation {
            *kept = Kept { generation, sources: HashMap::new() };
        }
        kept.sources.get(&key).cloned()
    });
    if kept.is_some() {
        return kept;
    }
    // Watch before reading, so that no change between the two goes unnoticed. What is kept already is watched.
    if KEPT.with_borrow(|kept| kept.sources.is_empty()) {
        invalidation::watch(run_latest!(CONFIGURATION).iter().map(|row| row.value(1)));
    }
    allowed();
    let loaded = Rc::new(load(tenant, source)?);
    KEPT.with_borrow_mut(|kept| {
        if kept.sources.len() >= MAX_KEPT {
            kept.sources.clear();
        }
        kept.sources.insert(key, Rc::clone(&loaded));
    });
    Some(loaded)
}

/// Reads and prepares a source; `None` where the tenant has none of that name.
pub fn load(tenant: Uuid, source: &str) -> Option<Source> {
    let rows = run_latest!(FIND, tenant, source);
    let row = rows.first()?;
    let gateway_name: String = row.value(1);
    let definition: String = row.value(2);
    let gateway = gateways::compile(&gateway_name, &definition);
    let secrets = signing_secrets::of_source(tenant, source)
        .into_iter()
        .filter_map(|stored| {
            let secret = gateway.scheme().secret(&stored.text).ok()?;
            Some((secret, stored.valid_from, stored.valid_until))
        })
        .collect();
    let http_status: String = row.value(9);
    let parameters: String = row.value(11);
    Some(Source {
        name: source.to_owned(),
        merchant_id: row.get(3),
        live_mode: row.value(4),
        id_signed: row.get(5).unwrap_or_else(|| gateway.id_is_signed()),
        max_payload_bytes: usize::try_from(row.value::<i32>(6)).expect("a positive length"),
        keep_payload: row.value(7),
        tolerance_s: row.get::<i32>(8).map(i32::unsigned_abs),
        parameters: serde_json::from_str(&parameters).unwrap_or_default(),
        exponents: currencies::all(),
        http_statuses: http_statuses(&http_status).unwrap_or_default(),
        rules: transition_rules::of_tenant(tenant),
        bank_scope: row.value(10),
        gateway_name,
        gateway,
        secrets,
    })
}

/// The overrides in a JSON object `{"outcome" or "outcome/reason": status}`; says what is wrong with it.
pub fn http_statuses(json: &str) -> Result<HttpStatuses, String> {
    let overrides: HashMap<String, i64> = serde_json::from_str(json)
        .map_err(|_| "it must be an object whose values are whole numbers".to_owned())?;
    let mut statuses = HttpStatuses::default();
    for (key, status) in overrides {
        statuses.set(&key, status)?;
    }
    Ok(statuses)
}
