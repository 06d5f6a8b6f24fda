//! `inspect`: why a delivery is refused, or what would be read of it.

use pgrx::datum::TimestampWithTimeZone;
use pgrx::{JsonB, Uuid, check_for_interrupts, pg_extern};

use crate::api::access::{Profile, require_tenant};
use crate::api::ingest::{no_source, request_headers};
use crate::domain::inspection::{Candidate, OTHER_SOURCE, RETIRED_SECRET, inspect as inspect_delivery};
use crate::domain::signature::Delivery;
use crate::pg::caller::as_owner;
use crate::pg::error::{invalid, required};
use crate::pg::jsonb::JsonText;
use crate::pg::moment::Moment;
use crate::store::{signing_secrets, sources};

#[pg_extern(sql = false)]
fn inspect(
    tenant: Option<Uuid>,
    source: Option<&str>,
    payload: Option<&[u8]>,
    sig: Option<&str>,
    headers: Option<JsonText>,
    at: Option<TimestampWithTimeZone>,
) -> JsonB {
    let tenant = required(tenant, "tenant");
    let name = required(source, "source");
    let payload = required(payload, "payload");
    let at = Moment::from(required(at, "at"));
    let headers = headers.map(|headers| request_headers(&headers.0));
    as_owner(|caller| {
        require_tenant(caller, Profile::Operator, tenant);
        let source = sources::load(tenant, name).unwrap_or_else(|| no_source(name));
        if payload.len() > source.max_payload_bytes {
            invalid(
                "payload",
                format!("It is longer than the source accepts, which is {} bytes.", source.max_payload_bytes),
                "ingest answers such a body with too_large.",
            )
        }
        let own = signing_secrets::of_source(tenant, name);
        let others = signing_secrets::of_other_sources(tenant, name, &source.gateway_name);
        // A secret may have been entered here after the gateway began to sign with it: only its end counts.
        let is_over = |until: &Option<Moment>| until.is_some_and(|until| until <= at);
        let own = own.iter().map(|secret| Candidate {
            text: &secret.text,
            mistake: is_over(&secret.valid_until).then_some(RETIRED_SECRET),
        });
        let others = others.iter().map(|text| Candidate { text, mistake: Some(OTHER_SOURCE) });
        let candidates: Vec<Candidate<'_>> = own.chain(others).collect();
        let delivery = Delivery {
            body: payload,
            signature: sig,
            headers: headers.as_ref(),
            parameters: &source.parameters,
        };
        let age = source.age_check();
        let pause = || {
            check_for_interrupts!();
        };
        JsonB(inspect_delivery(
            &source.gateway,
            &delivery,
            &candidates,
            at.unix_s(),
            age,
            &source.exponents,
            &pause,
        ))
    })
}
