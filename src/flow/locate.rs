//! Finds the order that an event names, and locks it.

use pgrx::Uuid;

use crate::domain::decision::Located;
use crate::domain::event::Event;
use crate::domain::order::Order;
use crate::store::order_keys::{self, KeyKind};
use crate::store::orders;
use crate::store::sources::Source;

/// [`Located`], owning the order.
pub enum Found {
    /// No order bears a reference of the event.
    Unknown,
    /// This one, locked.
    Known(Order),
    /// The references contradict each other; the order that the order reference names, locked.
    Contradiction(Option<Order>),
}

impl Found {
    /// For the decision.
    pub fn as_located(&self) -> Located<'_> {
        match self {
            Found::Unknown => Located::Unknown,
            Found::Known(order) => Located::Known(order),
            Found::Contradiction(order) => Located::Contradiction(order.as_ref()),
        }
    }

    /// The order, where there is one.
    pub fn order(&self) -> Option<&Order> {
        match self {
            Found::Unknown => None,
            Found::Known(order) => Some(order),
            Found::Contradiction(order) => order.as_ref(),
        }
    }
}

/// Finds the order by the merchant's reference or the gateway's order id, and locks it. Where both
/// are given they must agree, and so must the merchant.
pub fn locate(tenant: Uuid, source: &Source, event: &Event) -> Found {
    let merchant = source.merchant_id.as_deref().or(event.merchant_id.as_deref());
    let merchants_agree = source.merchant_id.is_none()
        || event.merchant_id.is_none()
        || source.merchant_id == event.merchant_id;

    let by_reference = match (event.order_reference.as_deref(), merchant) {
        (None, _) => None,
        (Some(reference), Some(merchant)) => orders::lock_by_reference(tenant, reference, merchant),
        (Some(reference), None) => match orders::keys_of_reference(tenant, reference)[..] {
            [] => None,
            [only] => orders::lock(tenant, only).map(|stored| stored.order),
            _ => return Found::Contradiction(None), // several merchants call an order so
        },
    };
    match by_reference {
        Some(order) if merchants_agree && gateway_order_agrees(tenant, event, &order) => Found::Known(order),
        Some(order) => Found::Contradiction(Some(order)),
        None => by_gateway_order(tenant, event, merchant, merchants_agree),
    }
}

/// Lets this event and a `create_order` of its order, in another transaction, come one after the
/// other; look again afterwards. Without it, one could park and the other see nothing parked.
pub fn meet_create_order(tenant: Uuid, event: &Event) {
    if let Some(reference) = &event.order_reference {
        order_keys::meet(tenant, KeyKind::ClientTxn, reference, None);
    }
    if let Some(gateway_order_id) = &event.gateway_order_id {
        order_keys::meet(tenant, KeyKind::GatewayOrder, gateway_order_id, None);
    }
}

/// Whether the gateway order id of the event is that of the order, or of none. A gateway may call
/// one order by several ids; the order's own may then stand among the payment's references.
fn gateway_order_agrees(tenant: Uuid, event: &Event, order: &Order) -> bool {
    let Some(given) = event.gateway_order_id.as_deref() else { return true };
    match order.gateway_order_id.as_deref() {
        Some(own) => own == given || event.references.iter().any(|reference| reference.value == own),
        None => order_keys::owner(tenant, given).is_none_or(|owner| *owner.as_bytes() == order.order_id),
    }
}

fn by_gateway_order(tenant: Uuid, event: &Event, merchant: Option<&str>, merchants_agree: bool) -> Found {
    let owner = event.gateway_order_id.as_deref().and_then(|id| order_keys::owner(tenant, id));
    let Some(order) = owner.and_then(|owner| orders::lock(tenant, owner)).map(|stored| stored.order) else {
        return Found::Unknown;
    };
    // Its own reference is no contradiction: the order may have been committed since we looked for it.
    let names_another =
        event.order_reference.as_ref().is_some_and(|reference| *reference != order.client_txn_id);
    if names_another || !merchants_agree || merchant.is_some_and(|merchant| merchant != order.merchant_id) {
        Found::Contradiction(Some(order))
    } else {
        Found::Known(order)
    }
}
