//! Tenants, sources and secrets; and the trigger that tells every backend of a change.

use pgrx::datum::TimestampWithTimeZone;
use pgrx::heap_tuple::PgHeapTuple;
use pgrx::{PgSqlErrorCode, PgTrigger, PgTriggerError, Uuid, WhoAllocated, pg_extern, pg_trigger, warning};

use crate::api::access::{Profile, require_all_tenants, require_secret, require_tenant};
use crate::domain::identifier;
use crate::domain::json::without_place;
use crate::domain::place::Parameters;
use crate::domain::signature::MIN_SECRET_BYTES;
use crate::pg::caller::as_owner;
use crate::pg::error::{exists_differently, invalid, raise, required, sentence};
use crate::pg::invalidation;
use crate::pg::jsonb::JsonText;
use crate::pg::moment::Moment;
use crate::store::sources::{self, NewSource};
use crate::store::{gateways, signing_secrets, tenants};

#[pg_extern(sql = false)]
fn create_tenant(name: Option<&str>, tenant: Option<Uuid>) -> Uuid {
    let name = required(name, "name");
    let tenant = required(tenant, "tenant");
    if name.trim().is_empty() || name.len() > identifier::MAX_BYTES || name.chars().any(char::is_control) {
        invalid(
            "name",
            format!(
                "It is blank, longer than {} bytes, or holds a control character.",
                identifier::MAX_BYTES
            ),
            "Pass a name for people to read.",
        )
    }
    if tenant.as_bytes() == &[0; 16] {
        invalid("tenant", "The nil UUID owns the defaults.", "Pass another UUID, or leave it out.")
    }
    as_owner(|caller| {
        require_all_tenants(caller, Profile::Admin);
        if !tenants::insert(tenant, name) {
            let known = tenants::name(tenant);
            if known.as_deref() != Some(name) {
                exists_differently(
                    &format!("tenant {tenant}"),
                    "It has another name.",
                    "Call again with its own name, or make a tenant with another key.",
                )
            }
        }
        tenants::make_first_partitions();
    });
    tenant
}

#[pg_extern(sql = false)]
fn create_source(
    tenant: Option<Uuid>,
    source: Option<&str>,
    gateway: Option<&str>,
    options: Option<JsonText>,
) {
    let tenant = required(tenant, "tenant");
    let source = required(source, "source");
    let gateway = required(gateway, "gateway");
    let options = required(options, "options").0;
    if let Err(fault) = identifier::check(source) {
        invalid("source", sentence(&fault), "Name the endpoint in a word, such as \"default\".")
    }
    let options = Options::read(&options);
    as_owner(|caller| {
        require_tenant(caller, Profile::Admin, tenant);
        let Some(definition) = gateways::load(gateway) else {
            raise(
                PgSqlErrorCode::ERRCODE_UNDEFINED_OBJECT,
                format!("there is no gateway \"{gateway}\""),
                "A gateway's definition says how its deliveries are verified and read.",
                "See payment_idem.gateways; add a definition with payment_idem.define_gateway().",
            )
        };
        let made = sources::create(tenant, source, &options.as_new_source(gateway));
        if !made {
            exists_differently(
                &format!("source \"{source}\""),
                "Its gateway or its options are not those given.",
                "Use another name, or UPDATE payment_idem.sources as its owner.",
            )
        }
        for name in definition.scheme().parameters() {
            if !options.parameters.contains_key(name) {
                warning!(
                    "no delivery to \"{source}\" can be verified before its \"parameters\" hold \"{name}\""
                );
            }
        }
    });
}

#[pg_extern(sql = false)]
fn add_secret(
    tenant: Option<Uuid>,
    source: Option<&str>,
    secret: Option<&str>,
    valid_until: Option<TimestampWithTimeZone>,
) -> i64 {
    let tenant = required(tenant, "tenant");
    let source = required(source, "source");
    let secret = required(secret, "secret");
    let now = Moment::now();
    let valid_until = valid_until.map(Moment::from);
    if valid_until.is_some_and(|until| until <= now) {
        invalid("valid_until", "It is in the past.", "Pass a moment to come, or NULL.")
    }
    as_owner(|caller| {
        require_tenant(caller, Profile::Admin, tenant);
        let Some(owner) = sources::load(tenant, source) else {
            raise(
                PgSqlErrorCode::ERRCODE_UNDEFINED_OBJECT,
                format!("the tenant has no source \"{source}\""),
                "A secret belongs to a source.",
                "Make it with payment_idem.create_source().",
            )
        };
        let scheme = owner.gateway.scheme();
        if let Err(fault) = scheme.secret(secret) {
            invalid(
                "secret",
                sentence(&fault),
                format!(
                    "Pass it as the gateway shows it, at least {MIN_SECRET_BYTES} bytes: who guesses it signs payments."
                ),
            )
        }
        signing_secrets::add(tenant, source, secret, valid_until, scheme.is_asymmetric(), now)
    })
}

#[pg_extern(sql = false)]
fn retire_secret(secret_id: Option<i64>, at: Option<TimestampWithTimeZone>) {
    let secret_id = required(secret_id, "secret_id");
    let at = Moment::from(required(at, "at"));
    as_owner(|caller| {
        let owner = signing_secrets::tenant_of(secret_id);
        require_secret(caller, Profile::Admin, secret_id, owner);
        if owner.is_none() {
            raise(
                PgSqlErrorCode::ERRCODE_UNDEFINED_OBJECT,
                format!("there is no signing secret {secret_id}"),
                "Secrets are numbered by add_secret.",
                "See secret_id in payment_idem.signing_secrets.",
            )
        }
        signing_secrets::retire(secret_id, at);
    });
}

#[pg_trigger(sql = false)]
fn configuration_changed<'a>(
    trigger: &'a PgTrigger<'a>,
) -> Result<Option<PgHeapTuple<'a, impl WhoAllocated>>, PgTriggerError> {
    invalidation::announce(trigger.relid()?);
    Ok(trigger.old())
}

/// The options of `create_source`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Options {
    merchant_id: Option<String>,
    live_mode: bool,
    id_signed: Option<bool>,
    max_payload_bytes: i32,
    keep_payload: bool,
    tolerance_s: Option<i32>,
    http_status: serde_json::Value,
    parameters: Parameters,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            merchant_id: None,
            live_mode: true,
            id_signed: None,
            max_payload_bytes: 1024 * 1024,
            keep_payload: true,
            tolerance_s: None,
            http_status: serde_json::Value::Object(serde_json::Map::new()),
            parameters: Parameters::new(),
        }
    }
}

impl Options {
    const MAX_PAYLOAD_BYTES: i32 = 64 * 1024 * 1024;
    const MAX_TOLERANCE_S: i32 = 7 * 24 * 60 * 60;
    const MAX_PARAMETER_BYTES: usize = 4096;

    fn read(json: &str) -> Self {
        let hint = "Options: merchant_id, live_mode, id_signed, max_payload_bytes, keep_payload, tolerance_s, http_status, parameters.";
        if !json.starts_with('{') {
            invalid("options", "It is not a JSON object.", hint)
        }
        let options: Options = serde_json::from_str(json)
            .unwrap_or_else(|fault| invalid("options", sentence(&without_place(&fault)), hint));
        if let Some(Err(fault)) = options.merchant_id.as_deref().map(identifier::check) {
            invalid("options", format!("merchant_id: {fault}"), hint)
        }
        if !(1..=Self::MAX_PAYLOAD_BYTES).contains(&options.max_payload_bytes) {
            invalid(
                "options",
                format!("max_payload_bytes is not between 1 and {}.", Self::MAX_PAYLOAD_BYTES),
                hint,
            )
        }
        if options.tolerance_s.is_some_and(|s| !(1..=Self::MAX_TOLERANCE_S).contains(&s)) {
            invalid("options", format!("tolerance_s is not between 1 and {}.", Self::MAX_TOLERANCE_S), hint)
        }
        let is_usable =
            |text: &str| (1..=Self::MAX_PARAMETER_BYTES).contains(&text.len()) && !text.contains('\0');
        if !options.parameters.iter().all(|(name, value)| is_usable(name) && is_usable(value)) {
            invalid(
                "options",
                format!("parameters: a text is empty or longer than {} bytes.", Self::MAX_PARAMETER_BYTES),
                hint,
            )
        }
        if let Err(fault) = sources::http_statuses(&options.http_status.to_string()) {
            invalid("options", format!("http_status: {fault}."), hint)
        }
        options
    }

    fn as_new_source<'a>(&'a self, gateway: &'a str) -> NewSource<'a> {
        NewSource {
            gateway,
            merchant_id: self.merchant_id.as_deref(),
            live_mode: self.live_mode,
            id_signed: self.id_signed,
            max_payload_bytes: self.max_payload_bytes,
            keep_payload: self.keep_payload,
            tolerance_s: self.tolerance_s,
            http_status: self.http_status.to_string(),
            parameters: serde_json::to_string(&self.parameters).expect("a map of texts is JSON"),
        }
    }
}
