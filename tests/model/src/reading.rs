//! What a sender says: as the bytes of the `generic` gateway, and as the model reads them.

use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::model::{Claim, Content, Event, Kind, Name};

pub const SECRET: &str = "the secret of random histories";

/// What may be wrong with an authentic body.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Blunder {
    Truncated,
    KeyTwice,
    Fraction,
}

/// The fields of a body; what is None is left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    pub id: String,
    pub word: &'static str,
    pub reference: Option<String>,
    pub gateway_order: Option<String>,
    pub merchant: Option<String>,
    pub amount: Option<i64>,
    pub currency: Option<&'static str>,
    pub payment: Option<String>,
    pub utr: Option<String>,
    pub livemode: Option<bool>,
    pub blunder: Option<Blunder>,
}

impl Said {
    pub fn body(&self) -> Vec<u8> {
        let mut fields = vec![format!("\"id\":\"{}\"", self.id), format!("\"type\":\"{}\"", self.word)];
        let mut text = |key: &str, value: Option<&str>| {
            fields.extend(value.map(|value| format!("\"{key}\":\"{value}\"")))
        };
        text("order", self.reference.as_deref());
        text("gateway_order_id", self.gateway_order.as_deref());
        text("merchant_id", self.merchant.as_deref());
        text("currency", self.currency);
        text("payment", self.payment.as_deref());
        text("utr", self.utr.as_deref());
        let fraction = if self.blunder == Some(Blunder::Fraction) { ".50" } else { "" };
        fields.extend(self.amount.map(|amount| format!("\"amount\":{amount}{fraction}")));
        fields.extend(self.livemode.map(|livemode| format!("\"livemode\":{livemode}")));
        match self.blunder {
            Some(Blunder::KeyTwice) => fields.push(fields[1].clone()),
            Some(Blunder::Truncated) => return format!("{{{}", fields.join(",")).into_bytes(),
            _ => {}
        }
        format!("{{{}}}", fields.join(",")).into_bytes()
    }

    pub fn event(&self) -> Arc<Event> {
        let digest = hex::encode(Sha256::digest(self.body()));
        let content = self.content();
        let identity =
            if content == Content::Unreadable { format!("sha256:{digest}") } else { self.id.clone() };
        Arc::new(Event { identity, digest, content })
    }

    fn content(&self) -> Content {
        let kind = match self.word {
            "paid" | "payment_succeeded" | "payment.succeeded" | "captured" | "payment_captured"
            | "checkout_completed" | "charge_succeeded" => Some(Kind::Succeeded),
            "failed" | "payment_failed" => Some(Kind::Failed),
            "expired" | "payment_expired" => Some(Kind::Expired),
            "attempted" | "payment_attempted" => Some(Kind::Attempted),
            "authorised" | "authorized" | "payment_authorized" => Some(Kind::Authorized),
            _ => None,
        };
        let about_money = ["refund", "refunded", "refund_settled", "refund_initiated", "refund_failed"]
            .contains(&self.word)
            || self.word.starts_with("dispute_");
        let nameless = self.reference.is_none() && self.gateway_order.is_none();
        let unreadable = match self.blunder {
            Some(Blunder::Truncated | Blunder::KeyTwice) => true,
            // The amount of a ping, or of what is not mapped, means nothing to us.
            Some(Blunder::Fraction) => kind.is_some() || about_money,
            None => kind == Some(Kind::Succeeded) && nameless,
        };
        if unreadable {
            return Content::Unreadable;
        }
        if self.livemode == Some(false) {
            return Content::Aside("test_mode");
        }
        let Some(kind) = kind.filter(|_| !nameless) else {
            let known = kind.is_some() || about_money || self.word == "ping";
            return Content::Aside(if known { "informational" } else { "unmapped_type" });
        };
        let name = |kind, value: &Option<String>| value.clone().map(|value| (kind, value));
        let names: Vec<Name> =
            [name("payment", &self.payment), name("bank", &self.utr)].into_iter().flatten().collect();
        let currency = self.currency.map(str::to_uppercase).filter(|code| code.len() == 3);
        Content::About(Claim {
            kind,
            reference: self.reference.clone(),
            gateway_order: self.gateway_order.clone(),
            merchant: self.merchant.clone(),
            amount_minor: self.amount,
            currency,
            names,
        })
    }
}

/// The `generic` gateway's signature.
pub fn sign(body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).expect("any length will do");
    mac.update(body);
    hex::encode(mac.finalize().into_bytes())
}
