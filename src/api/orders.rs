//! `create_order`.

use std::str::FromStr;

use pgrx::datum::TimestampWithTimeZone;
use pgrx::iter::TableIterator;
use pgrx::{AnyNumeric, Uuid, name, pg_extern};

use crate::api::access::{Profile, may_act_for, require_tenant};
use crate::domain::identifier;
use crate::domain::money::{self, Currency};
use crate::flow::create_order::{Facts, create_order as run};
use crate::pg::caller::as_owner;
use crate::pg::error::{invalid, required, sentence};
use crate::pg::moment::Moment;
use crate::store::currencies;

/// The longest mobile number that is kept, in bytes: E.164 has 15 digits; signs and blanks come on top.
const MAX_MOBILE_BYTES: usize = 32;

#[pg_extern(sql = false)]
#[allow(
    clippy::too_many_arguments,
    reason = "the facts of an order, one argument each, are the SQL interface"
)]
fn create_order(
    tenant: Option<Uuid>,
    merchant_id: Option<&str>,
    client_txn_id: Option<&str>,
    amount: Option<AnyNumeric>,
    currency: Option<&str>,
    expires_at: Option<TimestampWithTimeZone>,
    gateway_order_id: Option<&str>,
    customer_mobile: Option<&str>,
) -> TableIterator<'static, (name!(outcome, &'static str), name!(order_id, Uuid), name!(status, &'static str))>
{
    let tenant = required(tenant, "tenant");
    let merchant_id = identifier("merchant_id", required(merchant_id, "merchant_id"));
    let client_txn_id = identifier("client_txn_id", required(client_txn_id, "client_txn_id"));
    let amount = required(amount, "amount");
    let code = required(currency, "currency");
    let gateway_order_id = gateway_order_id.map(|id| identifier("gateway_order_id", id));
    let expires_at = expires_at.map(|at| finite("expires_at", at));
    if let Some(mobile) = customer_mobile
        && (mobile.trim().is_empty()
            || mobile.len() > MAX_MOBILE_BYTES
            || mobile.chars().any(char::is_control))
    {
        invalid(
            "customer_mobile",
            format!("It is blank, longer than {MAX_MOBILE_BYTES} bytes, or holds a control character."),
            "Pass the number as text, or NULL where it is not known.",
        )
    }
    let created = as_owner(|caller| {
        // A shop's application makes its orders and delivers their events; it need not be able to add secrets.
        let profile =
            if may_act_for(caller, Profile::Ingest, Some(tenant)) { Profile::Ingest } else { Profile::Admin };
        require_tenant(caller, profile, tenant);
        let (currency, exponent) = accepted_currency(code);
        run(&Facts {
            tenant,
            merchant_id,
            client_txn_id,
            amount_minor: positive_minor(&amount.to_string(), &currency, exponent),
            currency: currency.as_str(),
            expires_at,
            gateway_order_id,
            customer_mobile,
        })
    });
    TableIterator::once((created.outcome, created.order_id, created.status.as_str()))
}

fn identifier<'a>(argument: &str, value: &'a str) -> &'a str {
    match identifier::check(value) {
        Ok(()) => value,
        Err(fault) => invalid(
            argument,
            sentence(&fault),
            format!(
                "Identifiers are compared byte by byte: 1 to {} bytes, no blanks, no control characters.",
                identifier::MAX_BYTES
            ),
        ),
    }
}

fn accepted_currency(code: &str) -> (Currency, u8) {
    let known = Currency::from_str(code)
        .ok()
        .and_then(|currency| currencies::exponent(currency.as_str()).map(|exponent| (currency, exponent)));
    known.unwrap_or_else(|| {
        invalid(
            "currency",
            "It is not a currency whose number of decimals is known.",
            "Pass an ISO 4217 code; add others, with their exponent, to payment_idem.currencies.",
        )
    })
}

fn positive_minor(amount: &str, currency: &Currency, exponent: u8) -> i64 {
    match money::parse_major(amount, exponent) {
        Ok(minor) if minor > 0 => minor,
        Ok(_) => {
            invalid("amount", "It is not greater than zero.", "Pass what is to be paid, in major units.")
        }
        Err(fault) => invalid(
            "amount",
            sentence(&fault),
            format!(
                "Pass it in major units with at most {exponent} decimals, as {currency} has; nothing is rounded."
            ),
        ),
    }
}

fn finite(argument: &str, at: TimestampWithTimeZone) -> Moment {
    match Moment::from(at) {
        Moment(i64::MIN | i64::MAX) => {
            invalid(argument, "It is infinite.", "Pass a moment, or NULL for an order that does not expire.")
        }
        moment => moment,
    }
}
