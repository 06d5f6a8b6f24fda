//! `ingest` and `ingest_batch`, over bytes and over text.

use std::collections::HashMap;
use std::rc::Rc;

use pgrx::datum::TimestampWithTimeZone;
use pgrx::iter::TableIterator;
use pgrx::{Array, PgSqlErrorCode, Uuid, name, pg_extern};

use serde_json::value::RawValue;

use crate::api::access::{Profile, require_tenant};
use crate::domain::signature::{AgeCheck, Headers, digest};
use crate::flow::ingest::{Answer, ingest as take_in};
use crate::flow::open::Request;
use crate::pg::caller::{Caller, as_owner};
use crate::pg::error::{invalid, raise, required};
use crate::pg::jsonb::JsonText;
use crate::pg::moment::Moment;
use crate::store::replays::{self, Replay};
use crate::store::sources::{self, Source};

/// Both overloads: a `text` lies in memory as a `bytea` does, and in a UTF-8 database (the only one
/// that the extension installs into) its bytes are what the sender signed.
#[pg_extern(sql = false)]
#[allow(clippy::type_complexity, reason = "the columns of ingest_result")]
fn ingest(
    tenant: Option<Uuid>,
    event_id: Option<&str>,
    payload: Option<&[u8]>,
    sig: Option<&str>,
    source: Option<&str>,
    headers: Option<JsonText>,
) -> TableIterator<
    'static,
    (
        name!(outcome, &'static str),
        name!(reason, Option<String>),
        name!(http_status, i32),
        name!(event_id, Option<String>),
        name!(order_id, Option<Uuid>),
        name!(order_status, Option<&'static str>),
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
    let headers = headers.map(|headers| request_headers(&headers.0));
    let request = Request { event_id, payload, signature: sig, headers: headers.as_ref() };
    let answers = as_owner(|caller| {
        let source = source_of(caller, tenant, source);
        take_in(tenant, &source, std::slice::from_ref(&request), source.age_check())
    });
    TableIterator::new(answers.into_iter().map(row))
}

/// A row of `ingest_result`.
type Row = (
    &'static str,
    Option<String>,
    i32,
    Option<String>,
    Option<Uuid>,
    Option<&'static str>,
    Option<i64>,
    Option<i64>,
    Option<String>,
    Option<String>,
    Option<TimestampWithTimeZone>,
);

fn row(answer: Answer) -> Row {
    let Answer { outcome, reason, event_id, order_id, .. } = answer;
    (
        outcome.as_str(),
        reason,
        answer.http_status.into(),
        event_id,
        order_id,
        answer.order_status.map(|status| status.as_str()),
        answer.transaction_id,
        answer.exception_id,
        answer.payload_sha256.map(hex::encode),
        answer.first_outcome,
        answer.first_received_at.map(Into::into),
    )
}

/// As `ingest`, but the age of a signed timestamp does not count, and a row is left that says who and why.
#[pg_extern(sql = false)]
#[allow(clippy::type_complexity, reason = "the columns of ingest_result")]
fn replay(
    tenant: Option<Uuid>,
    event_id: Option<&str>,
    payload: Option<&[u8]>,
    sig: Option<&str>,
    why: Option<&str>,
    source: Option<&str>,
    headers: Option<JsonText>,
) -> TableIterator<
    'static,
    (
        name!(outcome, &'static str),
        name!(reason, Option<String>),
        name!(http_status, i32),
        name!(event_id, Option<String>),
        name!(order_id, Option<Uuid>),
        name!(order_status, Option<&'static str>),
        name!(transaction_id, Option<i64>),
        name!(exception_id, Option<i64>),
        name!(payload_sha256, Option<String>),
        name!(first_outcome, Option<String>),
        name!(first_received_at, Option<TimestampWithTimeZone>),
    ),
> {
    let tenant = required(tenant, "tenant");
    let payload = required(payload, "payload");
    let why = required(why, "why");
    let name = required(source, "source");
    if why.trim().is_empty() || why.len() > MAX_WHY_BYTES {
        invalid(
            "why",
            format!("It is blank or longer than {MAX_WHY_BYTES} bytes."),
            "Say why the delivery is replayed.",
        )
    }
    let headers = headers.map(|headers| request_headers(&headers.0));
    let request = Request { event_id, payload, signature: sig, headers: headers.as_ref() };
    let answers = as_owner(|caller| {
        require_tenant(caller, Profile::Operator, tenant);
        let source = sources::load(tenant, name).unwrap_or_else(|| no_source(name));
        let answers = take_in(tenant, &source, std::slice::from_ref(&request), AgeCheck::Skip);
        for answer in &answers {
            let replay = Replay {
                source: name,
                payload_sha256: answer.payload_sha256.unwrap_or_else(|| digest(payload)),
                outcome: answer.outcome.as_str(),
                reason: answer.reason.as_deref(),
                why,
                role: caller.oid(),
            };
            replays::note(tenant, &replay, Moment::now());
        }
        answers
    });
    TableIterator::new(answers.into_iter().map(row))
}

/// Longest reason of a replay.
const MAX_WHY_BYTES: usize = 1000;

/// The most deliveries of one call: a bound on what it holds in memory and locked.
const MAX_BATCH: usize = 10_000;

/// Both overloads, as above.
#[pg_extern(sql = false)]
#[allow(clippy::type_complexity, reason = "the columns of ingest_result, and the item")]
fn ingest_batch(
    tenant: Option<Uuid>,
    event_ids: Option<Array<'_, &str>>,
    payloads: Option<Array<'_, &[u8]>>,
    sigs: Option<Array<'_, &str>>,
    source: Option<&str>,
    headers: Option<Array<'_, JsonText>>,
) -> TableIterator<
    'static,
    (
        name!(item, i32),
        name!(outcome, &'static str),
        name!(reason, Option<String>),
        name!(http_status, i32),
        name!(event_id, Option<String>),
        name!(order_id, Option<Uuid>),
        name!(order_status, Option<&'static str>),
        name!(transaction_id, Option<i64>),
        name!(exception_id, Option<i64>),
        name!(payload_sha256, Option<String>),
        name!(first_outcome, Option<String>),
        name!(first_received_at, Option<TimestampWithTimeZone>),
    ),
> {
    let tenant = required(tenant, "tenant");
    let payloads = required(payloads, "payloads");
    let source = required(source, "source");
    let count = payloads.len();
    if count > MAX_BATCH {
        invalid(
            "payloads",
            format!("It has {count} elements, more than {MAX_BATCH}."),
            "Deliver them in several calls.",
        )
    }
    let event_ids = column("event_ids", event_ids.as_ref().map(|ids| ids.iter().collect()), count);
    let sigs = column("sigs", sigs.as_ref().map(|sigs| sigs.iter().collect()), count);
    let headers = column("headers", headers.as_ref().map(|headers| headers.iter().collect()), count);
    let headers: Vec<Option<Headers>> = headers
        .into_iter()
        .map(|headers: Option<JsonText>| headers.map(|headers| request_headers(&headers.0)))
        .collect();
    let requests: Vec<Request<'_>> = payloads
        .iter()
        .enumerate()
        .map(|(index, payload)| Request {
            event_id: event_ids[index],
            payload: required(payload, "payloads"),
            signature: sigs[index],
            headers: headers[index].as_ref(),
        })
        .collect();
    let answers = as_owner(|caller| {
        let source = source_of(caller, tenant, source);
        take_in(tenant, &source, &requests, source.age_check())
    });
    TableIterator::new(answers.into_iter().map(|answer| {
        let item = i32::try_from(answer.delivery + 1).expect("a batch is bounded");
        let (outcome, reason, status, event_id, order_id, order_status, line, exception, digest, first, at) =
            row(answer);
        (item, outcome, reason, status, event_id, order_id, order_status, line, exception, digest, first, at)
    }))
}

/// The elements of an array that runs along the payloads; a NULL array is one of NULLs.
fn column<T>(argument: &str, array: Option<Vec<Option<T>>>, count: usize) -> Vec<Option<T>> {
    match array {
        None => (0..count).map(|_| None).collect(),
        Some(array) if array.len() == count => array,
        Some(array) => invalid(
            argument,
            format!("It has {} elements, where there are {count} payloads.", array.len()),
            "Pass one element per payload, or NULL for the whole array where no delivery has one.",
        ),
    }
}

/// The source; raises 42501 where the caller may not act for the tenant, 42704 where it has none of that name.
fn source_of(caller: Caller, tenant: Uuid, source: &str) -> Rc<Source> {
    let allowed = || require_tenant(caller, Profile::Ingest, tenant);
    sources::get(caller, tenant, source, allowed).unwrap_or_else(|| no_source(source))
}

/// Raises 42704.
pub(super) fn no_source(source: &str) -> ! {
    raise(
        PgSqlErrorCode::ERRCODE_UNDEFINED_OBJECT,
        format!("the tenant has no source \"{source}\""),
        "Events come in through a source, which names the gateway and holds the secrets.",
        "Make it with payment_idem.create_source(), or pass the name of one that exists.",
    )
}

/// The request's headers from a JSON object; an array is a header that came several times. What is
/// neither a string nor an array of strings is no header, and is not looked into.
pub(super) fn request_headers(json: &str) -> Headers {
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
