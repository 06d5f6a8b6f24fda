//! Finds the order that an event names, and locks it.

use std::collections::BTreeSet;
use std::collections::hash_map::{Entry, HashMap};

use pgrx::Uuid;

use crate::domain::event::Event;
use crate::domain::order::{Id, Order, Status};
use crate::pg::error::serialization_failure;
use crate::store::order_keys::{self, KeyKind};
use crate::store::orders;
use crate::store::sources::Source;

/// Which order the event's references name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// No order bears a reference of the event.
    Unknown,
    /// This one, and no reference contradicts.
    Known(Id),
    /// The references contradict each other; the order that the order reference names.
    Contradiction(Option<Id>),
}

impl Found {
    /// The order, where there is one.
    pub fn order_id(self) -> Option<Id> {
        match self {
            Found::Unknown => None,
            Found::Known(order_id) => Some(order_id),
            Found::Contradiction(order_id) => order_id,
        }
    }
}

/// The orders of a tenant that a call has to do with.
///
/// A call about one event locks its order when it looks for it. A call about many looks without a
/// lock, then locks all that it has seen in the order of their keys, and looks among those.
pub struct Orders {
    tenant: Uuid,
    mode: Mode,
    known: HashMap<Id, Order>,
    /// The known orders by the merchant's reference: of several merchants' orders of one name, each.
    named: HashMap<String, Vec<Id>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Lock,
    Look,
    Locked,
}

impl Orders {
    /// Locks orders as they are found.
    pub fn locking(tenant: Uuid) -> Self {
        Orders { tenant, mode: Mode::Lock, known: HashMap::new(), named: HashMap::new() }
    }

    /// Locks this order, and finds no other.
    pub fn only(tenant: Uuid, order_id: Uuid) -> Self {
        let mut orders = Orders { mode: Mode::Locked, ..Orders::locking(tenant) };
        orders.lock_all(vec![order_id]);
        orders
    }

    /// Finds orders, and locks none yet.
    pub fn looking(tenant: Uuid) -> Self {
        Orders { mode: Mode::Look, ..Orders::locking(tenant) }
    }

    /// Locks what was found, reads it again, and finds nothing else from now on.
    pub fn lock_found(&mut self) {
        let order_ids = self.known.keys().copied().map(Uuid::from_bytes).collect();
        (self.known, self.named) = Default::default();
        self.lock_all(order_ids);
        self.mode = Mode::Locked;
    }

    fn lock_all(&mut self, order_ids: Vec<Uuid>) {
        for order in orders::lock_all(self.tenant, order_ids) {
            self.remember(order);
        }
    }

    /// An order that was found.
    pub fn get(&self, order_id: Id) -> &Order {
        &self.known[&order_id]
    }

    /// The status in which an order was found, where it was.
    pub fn status(&self, order_id: Uuid) -> Option<Status> {
        self.known.get(order_id.as_bytes()).map(|order| order.status)
    }

    fn by_reference(&mut self, client_txn_id: &str, merchant_id: &str) -> Option<Id> {
        let of_merchant = |order_id: &&Id| self.known[*order_id].merchant_id == merchant_id;
        let known = self.named.get(client_txn_id).and_then(|named| named.iter().find(of_merchant)).copied();
        known.or_else(|| {
            let order = match self.mode {
                Mode::Lock => orders::lock_by_reference(self.tenant, client_txn_id, merchant_id),
                Mode::Look => {
                    orders::find(self.tenant, client_txn_id, merchant_id).map(|stored| stored.order)
                }
                Mode::Locked => None,
            }?;
            Some(self.remember(order))
        })
    }

    fn by_key(&mut self, order_id: Uuid) -> Option<Id> {
        if let Entry::Occupied(known) = self.known.entry(*order_id.as_bytes()) {
            return Some(*known.key());
        }
        let order = match self.mode {
            Mode::Lock => orders::lock(self.tenant, order_id).map(|stored| stored.order),
            Mode::Look => orders::find_by_key(self.tenant, order_id),
            Mode::Locked => None,
        }?;
        Some(self.remember(order))
    }

    fn remember(&mut self, order: Order) -> Id {
        let order_id = order.order_id;
        self.named.entry(order.client_txn_id.clone()).or_default().push(order_id);
        self.known.insert(order_id, order);
        order_id
    }

    /// Finds the order by the merchant's reference or the gateway's order id. Where both are given
    /// they must agree, and so must the merchant.
    pub fn locate(&mut self, source: &Source, event: &Event) -> Found {
        let merchant = source.merchant_id.as_deref().or(event.merchant_id.as_deref());
        let merchants_agree = source.merchant_id.is_none()
            || event.merchant_id.is_none()
            || source.merchant_id == event.merchant_id;

        let by_reference = match (event.order_reference.as_deref(), merchant) {
            (None, _) => None,
            (Some(reference), Some(merchant)) => self.by_reference(reference, merchant),
            (Some(reference), None) => {
                let tenant = self.tenant;
                let keys = || orders::keys_of_reference(tenant, reference);
                match *keys() {
                    // Several merchants call an order so.
                    [_, _, ..] => return Found::Contradiction(None),
                    [key] => {
                        let found = self.by_key(key);
                        if found.is_some() && self.mode == Mode::Lock && keys().len() > 1 {
                            // One of them has done so while we waited for the lock.
                            order_changed();
                        }
                        found
                    }
                    [] => None,
                }
            }
        };
        match by_reference {
            Some(order_id) if merchants_agree && self.gateway_order_agrees(event, order_id) => {
                Found::Known(order_id)
            }
            Some(order_id) => Found::Contradiction(Some(order_id)),
            None => self.by_gateway_order(event, merchant, merchants_agree),
        }
    }

    /// Whether the gateway order id of the event is that of the order, or of none. A gateway may
    /// call one order by several ids; the order's own may then stand among the payment's references.
    fn gateway_order_agrees(&self, event: &Event, order_id: Id) -> bool {
        let Some(given) = event.gateway_order_id.as_deref() else { return true };
        match self.get(order_id).gateway_order_id.as_deref() {
            Some(own) => own == given || event.references.iter().any(|reference| reference.value == own),
            None => order_keys::owner(self.tenant, given).is_none_or(|owner| *owner.as_bytes() == order_id),
        }
    }

    fn by_gateway_order(&mut self, event: &Event, merchant: Option<&str>, merchants_agree: bool) -> Found {
        let owner = event.gateway_order_id.as_deref().and_then(|id| order_keys::owner(self.tenant, id));
        let Some(order_id) = owner.and_then(|owner| self.by_key(owner)) else { return Found::Unknown };
        let order = self.get(order_id);
        // Its own reference is no contradiction: the order may have been committed since we looked for it.
        let names_another =
            event.order_reference.as_ref().is_some_and(|reference| *reference != order.client_txn_id);
        if names_another || !merchants_agree || merchant.is_some_and(|merchant| merchant != order.merchant_id)
        {
            Found::Contradiction(Some(order_id))
        } else {
            Found::Known(order_id)
        }
    }
}

/// Ends the call: what it has locked is not what it has looked for.
pub fn order_changed() -> ! {
    serialization_failure("Another transaction changed which order an event of this call means.")
}

/// Lets these events and a `create_order` of their orders, in another transaction, come one after
/// the other; look again afterwards. Without it, one could park and the other see nothing parked.
pub fn meet_create_order<'a>(tenant: Uuid, events: impl Iterator<Item = &'a Event>) {
    let mut keys = BTreeSet::new();
    for event in events {
        keys.extend(event.order_reference.as_deref().map(|reference| (KeyKind::ClientTxn, reference)));
        keys.extend(event.gateway_order_id.as_deref().map(|id| (KeyKind::GatewayOrder, id)));
    }
    for (kind, value) in keys {
        order_keys::meet(tenant, kind, value, None);
    }
}
