//! `ingest`, over bytes and over text.

use std::collections::HashMap;

use pgrx::datum::TimestampWithTimeZone;
use pgrx::iter::TableIterator;
use pgrx::{AnyElement, PgSqlErrorCode, Uuid, name, pg_extern};

use serde_json::value::RawValue;

use crate::api::access::{Profile, require_tenant};
use crate::domain::signature::Headers;
use crate::flow::ingest::{Request, ingest as take_in};
use crate::pg::caller::as_owner;
use crate::pg::error::{invalid, raise, required};
use crate::pg::jsonb;
use crate::store::sources;

/// Both overloads: a `text` lies in memory as a `bytea` does, and in a UTF-8 database (the only one
/// that the extension installs into) its bytes are what the sender signed.
#[pg_extern(sql = false)]
#[allow(clippy::type_complexity, reason = "the columns of ingest_result, once")]
fn ingest(
    tenant: Option<Uuid>,
    event_id: Option<&str>,
    payload: Option<&[u8]>,
    sig: Option<&str>,
    source: Option<&str>,
    headers: Option<AnyElement>,
) -> TableIterator<
    'static,
    (
        name!(outcome, String),
        name!(reason, Option<String>),
        name!(http_status, i32),
        name!(event_id, Option<String>),
        name!(order_id, Option<Uuid>),
        name!(order_status, Option<String>),
        name!(transaction_id, Option<i64>),
        name!(exception_id, Option<i64>),
        name!(payload_sha256, Option<String>),
        name!(first_outcome, Option<String>),
        name!(first_received_at, Option<TimestampWithTimeZone>),
    ),
> {
    let tenant = required(tenant, "tenant");
    let payload = required(payload, "payload");
    let source = required(source, "source");
    let headers = headers.map(|headers| request_headers(&jsonb::text(headers)));
    let answer = as_owner(|caller| {
        let allowed = || require_tenant(caller, Profile::Ingest, tenant);
        let Some(source) = sources::get(caller, tenant, source, allowed) else {
            raise(
                PgSqlErrorCode::ERRCODE_UNDEFINED_OBJECT,
                format!("the tenant has no source \"{source}\""),
                "Events come in through a source, which names the gateway and holds the secrets.",
                "Make it with payment_idem.create_source(), or pass the name of one that exists.",
            )
        };
        take_in(&source, &Request { tenant, event_id, payload, signature: sig, headers: headers.as_ref() })
    });
    TableIterator::once((
        answer.outcome.as_str().to_owned(),
        answer.reason,
        answer.http_status.into(),
        answer.event_id,
        answer.order_id,
        answer.order_status,
        answer.transaction_id,
        answer.exception_id,
        answer.payload_sha256.map(hex::encode),
        answer.first_outcome,
        answer.first_received_at.map(Into::into),
    ))
}

/// The request's headers from a JSON object; an array is a header that came several times. What is
/// neither a string nor an array of strings is no header, and is not looked into.
fn request_headers(json: &str) -> Headers {
    let Ok(fields) = serde_json::from_str::<HashMap<String, &RawValue>>(json) else {
        invalid("headers", "It is not a JSON object.", "Pass the request's headers as {\"name\": \"value\"}.")
    };
    Headers::new(fields.into_iter().flat_map(|(name, value)| {
        let values: Vec<&RawValue> = serde_json::from_str(value.get()).unwrap_or_else(|_| vec![value]);
        values
            .into_iter()
            .filter_map(|value| serde_json::from_str::<String>(value.get()).ok())
            .map(move |value| (name.clone(), value))
    }))
}
