//! The decision, against the contract: first every situation there is, then every order of delivery.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use payment_idem::domain::decision::{
    Decision, FULFIL_ORDER, Located, Move, ReferenceState, Situation, Taken, claims_references,
    decide, decide_alone,
};
use payment_idem::domain::event::{Event, Kind, Reference};
use payment_idem::domain::order::{Id, Order, Rules, Status};
use payment_idem::domain::outcome::Reason;
use proptest::prelude::*;

const HERE: Id = [1; 16];
const ELSEWHERE: Id = [2; 16];
const AMOUNT: i64 = 1000;

static DEFAULT_RULES: LazyLock<Rules> = LazyLock::new(|| Rules::new(default_edges()));

/// The default edges, as the contract has them.
fn default_edges() -> Vec<(Kind, Status, Status)> {
    use Status::{Completed, Expired, Failed, Pending, Processing};
    let edges: [(Kind, &[Status], Status); 5] = [
        (Kind::PaymentAttempted, &[Pending], Processing),
        (Kind::PaymentAuthorized, &[Pending], Processing),
        (Kind::PaymentFailed, &[Pending, Processing], Failed),
        (
            Kind::PaymentExpired,
            &[Pending, Processing, Failed],
            Expired,
        ),
        (
            Kind::PaymentSucceeded,
            &[Pending, Processing, Failed, Expired],
            Completed,
        ),
    ];
    edges
        .iter()
        .flat_map(|(kind, froms, to)| froms.iter().map(|from| (*kind, *from, *to)))
        .collect()
}

fn order(status: Status, paid_minor: i64) -> Order {
    Order {
        order_id: HERE,
        merchant_id: "M1".into(),
        client_txn_id: "O1".into(),
        amount_minor: AMOUNT,
        currency: "USD".into(),
        status,
        paid_minor,
        ledger_seq: 0,
        ledger_head: None,
        outbox_seq: 0,
        gateway_order_id: None,
    }
}

fn event(kind: impl Into<Option<Kind>>) -> Event {
    Event {
        event_id: Some("evt_1".into()),
        event_type: "type".into(),
        kind: kind.into(),
        order_reference: Some("O1".into()),
        gateway_order_id: None,
        merchant_id: None,
        amount_minor: Some(AMOUNT),
        currency: "USD".parse().ok(),
        references: Vec::new(),
        bank_reference: None,
        payer: None,
        event_time_us: None,
        live_mode: None,
    }
}

/// What an event comes to, with or without an order, at a source for real money.
fn judge(event: &Event, situation: &Situation<'_>) -> Decision {
    match decide_alone(event, true) {
        Some(reason) => Decision::Record(reason),
        None => decide(event, situation),
    }
}

// Every situation ----------------------------------------------------------------------------------

const KINDS: [Option<Kind>; 13] = {
    let mut kinds = [None; 13];
    let mut i = 0;
    while i < Kind::ALL.len() {
        kinds[i] = Some(Kind::ALL[i]);
        i += 1;
    }
    kinds
};

/// One situation, with what the contract says of it.
#[derive(Clone, Debug)]
struct Case {
    kind: Option<Kind>,
    located: Where,
    status: Status,
    paid_minor: i64,
    amount_minor: Option<i64>,
    currency: Option<&'static str>,
    taken: Vec<Taken>,
    on_record: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Where {
    Unknown,
    Known,
    ContradictionAboutThisOrder,
    ContradictionAboutNone,
}

impl Case {
    fn all() -> impl Iterator<Item = Case> {
        let here = |state| Taken {
            order_id: HERE,
            state,
        };
        let elsewhere = |state| Taken {
            order_id: ELSEWHERE,
            state,
        };
        let (applied, held) = (ReferenceState::Applied, ReferenceState::Held);
        let references: Vec<Vec<Taken>> = vec![
            vec![],
            vec![here(applied)],
            vec![here(held)],
            vec![here(held), here(applied)],
            vec![elsewhere(applied)],
            vec![elsewhere(held)],
            vec![here(applied), elsewhere(held)],
            vec![here(held), elsewhere(applied)],
        ];
        let places = [
            Where::Unknown,
            Where::Known,
            Where::ContradictionAboutThisOrder,
            Where::ContradictionAboutNone,
        ];
        let amounts = [
            Some(AMOUNT),
            Some(AMOUNT - 1),
            Some(AMOUNT + 1),
            Some(0),
            Some(-AMOUNT),
            Some(i64::MAX),
            None,
        ];
        let mut cases = Vec::new();
        for kind in KINDS {
            for located in places {
                for status in Status::ALL {
                    for paid_minor in [0, AMOUNT] {
                        for amount_minor in amounts {
                            for currency in [Some("USD"), Some("EUR"), None] {
                                for taken in &references {
                                    for on_record in [false, true] {
                                        cases.push(Case {
                                            kind,
                                            located,
                                            status,
                                            paid_minor,
                                            amount_minor,
                                            currency,
                                            taken: taken.clone(),
                                            on_record,
                                        });
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
        cases.into_iter()
    }

    fn event(&self) -> Event {
        Event {
            amount_minor: self.amount_minor,
            currency: self.currency.map(|code| code.parse().unwrap()),
            ..event(self.kind)
        }
    }

    fn decision(&self, rules: &Rules) -> Decision {
        let order = order(self.status, self.paid_minor);
        let situation = Situation {
            order: match self.located {
                Where::Unknown => Located::Unknown,
                Where::Known => Located::Known(&order),
                Where::ContradictionAboutThisOrder => Located::Contradiction(Some(&order)),
                Where::ContradictionAboutNone => Located::Contradiction(None),
            },
            taken: &self.taken,
            on_record: self.on_record,
            rules,
        };
        judge(&self.event(), &situation)
    }

    fn is_taken(&self, order_id: Id, state: ReferenceState) -> bool {
        self.taken.contains(&Taken { order_id, state })
    }

    /// Decided by the contract: the first line that fits.
    fn expected(&self) -> Decision {
        use Status::{Completed, Expired, Failed, Pending, Processing};
        let Some(kind) = self.kind else {
            return Decision::Record(Reason::UnmappedType);
        };
        let target = match kind {
            Kind::PaymentAttempted | Kind::PaymentAuthorized => Processing,
            Kind::PaymentFailed => Failed,
            Kind::PaymentExpired => Expired,
            Kind::PaymentSucceeded => Completed,
            _ => return Decision::Record(Reason::Informational),
        };
        let apply = |amount_minor, event_type, action| {
            Decision::Apply(Move {
                to: target,
                amount_minor,
                event_type,
                action,
            })
        };
        // One exception per payment: a repeat of what is held or on record is no news.
        let known = self.on_record
            || (self.located != Where::ContradictionAboutNone
                && self.is_taken(HERE, ReferenceState::Held));
        let raise = |reason| {
            if known {
                Decision::Record(Reason::SamePayment)
            } else {
                Decision::Raise(reason)
            }
        };

        match self.located {
            Where::Unknown => return Decision::Park(Reason::OrderNotFound),
            Where::ContradictionAboutThisOrder | Where::ContradictionAboutNone => {
                return raise(Reason::ReferenceMismatch);
            }
            Where::Known => {}
        }
        if kind != Kind::PaymentSucceeded {
            let event_type = match kind {
                Kind::PaymentAttempted => "PAYMENT_ATTEMPTED",
                _ => "WEBHOOK_RECEIVED",
            };
            // PENDING < PROCESSING < FAILED < EXPIRED < COMPLETED < REFUNDED: only up.
            return match self.status.cmp(&target) {
                std::cmp::Ordering::Less => apply(0, event_type, None),
                std::cmp::Ordering::Equal => Decision::Record(Reason::AlreadyInState),
                std::cmp::Ordering::Greater => Decision::Record(Reason::Stale),
            };
        }
        // Whose payment is it, then is it news, then is it the right one (an amount in another
        // currency cannot be compared), then may the order move.
        if self.taken.iter().any(|taken| taken.order_id != HERE) {
            raise(Reason::ReferenceReused)
        } else if self.is_taken(HERE, ReferenceState::Applied) {
            Decision::Record(Reason::SamePayment)
        } else if self.paid_minor > 0 {
            raise(Reason::SecondPayment)
        } else if self.currency != Some("USD") {
            raise(Reason::CurrencyMismatch)
        } else if self.amount_minor != Some(AMOUNT) {
            raise(Reason::AmountMismatch)
        } else if [Pending, Processing, Failed, Expired].contains(&self.status) {
            apply(AMOUNT, "WEBHOOK_RECEIVED", Some("fulfil_order"))
        } else {
            raise(Reason::TransitionNotAllowed)
        }
    }
}

#[test]
fn every_situation_is_decided_by_the_contract() {
    let mut decided = BTreeSet::new();
    for case in Case::all() {
        let decision = case.decision(&DEFAULT_RULES);
        assert_eq!(decision, case.expected(), "{case:?}");
        decided.insert(match decision {
            Decision::Apply(_) => "applied",
            Decision::Record(reason) | Decision::Park(reason) | Decision::Raise(reason) => {
                reason.as_str()
            }
        });
    }
    // Nothing that the decision can answer is missing from the cases.
    let answers = "already_in_state amount_mismatch applied currency_mismatch informational order_not_found \
                   reference_mismatch reference_reused same_payment second_payment stale transition_not_allowed \
                   unmapped_type";
    assert_eq!(decided, answers.split_whitespace().collect());
}

#[test]
fn money_is_booked_on_the_right_identity_amount_and_currency_only() {
    // P6, without the table above, and under rules that let a payment move an order from anywhere to anywhere.
    for to in Status::ALL {
        let edges = Status::ALL.map(|from| (Kind::PaymentSucceeded, from, to));
        let rules = Rules::new(edges.into_iter().filter(|edge| edge.1 != edge.2));
        for case in Case::all() {
            let Decision::Apply(step) = case.decision(&rules) else {
                continue;
            };
            assert_eq!(case.kind, Some(Kind::PaymentSucceeded), "{case:?}");
            assert_eq!(case.located, Where::Known, "{case:?}");
            assert_eq!(
                (case.amount_minor, case.currency),
                (Some(AMOUNT), Some("USD")),
                "{case:?}"
            );
            assert_eq!(case.paid_minor, 0, "{case:?}");
            assert!(
                case.taken.iter().all(|taken| taken.order_id == HERE),
                "{case:?}"
            );
            assert!(!case.is_taken(HERE, ReferenceState::Applied), "{case:?}");
            assert_eq!((step.to, step.amount_minor), (to, AMOUNT), "{case:?}");
            assert_eq!(
                step.action,
                (to == Status::Completed).then_some(FULFIL_ORDER),
                "{case:?}"
            );
        }
    }
}

#[test]
fn a_tenants_own_rules_decide_which_moves_there_are() {
    // Late payments are not wanted, and failed attempts do not show.
    let rules = Rules::new(default_edges().into_iter().filter(|&(kind, from, _)| {
        (kind, from) != (Kind::PaymentSucceeded, Status::Expired) && kind != Kind::PaymentFailed
    }));
    let decide_at = |status, kind| {
        let order = order(status, 0);
        let situation = Situation {
            order: Located::Known(&order),
            taken: &[],
            on_record: false,
            rules: &rules,
        };
        decide(&event(kind), &situation)
    };
    let late = decide_at(Status::Expired, Kind::PaymentSucceeded);
    assert_eq!(
        late,
        Decision::Raise(Reason::TransitionNotAllowed),
        "money is never dropped"
    );
    assert!(matches!(
        decide_at(Status::Pending, Kind::PaymentSucceeded),
        Decision::Apply(_)
    ));
    assert!(matches!(
        decide_at(Status::Pending, Kind::PaymentFailed),
        Decision::Record(_)
    ));
}

#[test]
fn some_events_need_no_order() {
    for kind in KINDS {
        let concerns_an_order = matches!(
            kind,
            Some(
                Kind::PaymentAttempted
                    | Kind::PaymentAuthorized
                    | Kind::PaymentSucceeded
                    | Kind::PaymentFailed
                    | Kind::PaymentExpired
            )
        );
        let alone = match kind {
            None => Some(Reason::UnmappedType),
            Some(_) if concerns_an_order => None,
            Some(_) => Some(Reason::Informational),
        };
        for (live_mode, source_is_live, contradicts) in [
            (None, true, false),
            (None, false, false),
            (Some(true), true, false),
            (Some(false), false, false),
            (Some(true), false, true),
            (Some(false), true, true),
        ] {
            let event = Event {
                live_mode,
                ..event(kind)
            };
            let expected = if contradicts {
                Some(Reason::TestMode)
            } else {
                alone
            };
            assert_eq!(
                decide_alone(&event, source_is_live),
                expected,
                "{event:?} {source_is_live}"
            );
        }
        // Either reference is enough to look for the order by.
        let by_gateway = Event {
            order_reference: None,
            gateway_order_id: Some("order_1".into()),
            ..event(kind)
        };
        assert_eq!(decide_alone(&by_gateway, true), alone);
        // Without any, there is no order to look for; a payment is then unreadable and does not come here.
        if kind != Some(Kind::PaymentSucceeded) {
            let nameless = Event {
                order_reference: None,
                ..event(kind)
            };
            assert_eq!(
                decide_alone(&nameless, true),
                alone.or(Some(Reason::Informational)),
                "{kind:?}"
            );
        }
        assert_eq!(
            claims_references(&event(kind)),
            kind == Some(Kind::PaymentSucceeded),
            "{kind:?}"
        );
    }
}

// Every order of delivery --------------------------------------------------------------------------

/// The tables around one order, in memory: what the statements do with a decision.
#[derive(Clone, Default)]
struct Tables {
    order: Option<Order>,
    receipts: BTreeSet<String>,
    parked: Vec<Event>,
    references: BTreeMap<Reference, ReferenceState>,
    exceptions: Vec<Exception>,
    fulfilments: usize,
}

#[derive(Clone, Debug)]
struct Exception {
    payment: String,
    open: bool,
}

/// A name for the payment: its reference, or else the event itself.
fn payment_of(event: &Event) -> String {
    event.references.last().map_or_else(
        || event.event_id.clone().unwrap(),
        |reference| reference.value.clone(),
    )
}

impl Tables {
    fn create_order(&mut self) {
        self.order = Some(order(Status::Pending, 0));
        for event in std::mem::take(&mut self.parked) {
            self.settle(&event);
        }
    }

    fn ingest(&mut self, event: &Event) {
        if self.receipts.insert(event.event_id.clone().unwrap()) {
            self.settle(event);
        }
    }

    fn settle(&mut self, event: &Event) {
        let payment = payment_of(event);
        let taken: Vec<Taken> = event
            .references
            .iter()
            .filter_map(|reference| self.references.get(reference))
            .map(|&state| Taken {
                order_id: HERE,
                state,
            })
            .collect();
        let situation = Situation {
            order: self.order.as_ref().map_or(Located::Unknown, Located::Known),
            taken: &taken,
            on_record: false, // asked only about references that contradict, or belong elsewhere
            rules: &DEFAULT_RULES,
        };
        let state = match judge(event, &situation) {
            Decision::Park(_) => return self.parked.push(event.clone()),
            // The names that are new join the payment that it is.
            Decision::Record(Reason::SamePayment) => taken[0].state,
            Decision::Record(_) => return,
            Decision::Raise(_) => {
                self.exceptions.push(Exception {
                    payment,
                    open: true,
                });
                ReferenceState::Held
            }
            Decision::Apply(step) => {
                let order = self.order.as_mut().expect("only an order moves");
                assert!(
                    step.to > order.status,
                    "{} to {} is not forward",
                    order.status,
                    step.to
                );
                order.status = step.to;
                order.paid_minor += step.amount_minor;
                self.fulfilments += step.action.iter().len();
                if step.amount_minor > 0 {
                    // The payment that was in exception is booked after all.
                    self.exceptions
                        .iter_mut()
                        .filter(|known| known.payment == payment)
                        .for_each(|e| e.open = false);
                }
                ReferenceState::Applied
            }
        };
        if claims_references(event) {
            for reference in &event.references {
                let kept = self.references.entry(reference.clone()).or_insert(state);
                if state == ReferenceState::Applied {
                    *kept = state;
                }
            }
        }
    }

    fn end(&self, events: &[&Event]) -> End {
        let order = self.order.as_ref().expect("the order is made in every run");
        let payable = payable_payments(events);
        let mut in_exception: Vec<_> = self
            .exceptions
            .iter()
            .filter(|exception| exception.open)
            .map(|exception| {
                (!payable.contains(&exception.payment)).then(|| exception.payment.clone())
            })
            .collect();
        in_exception.sort_unstable();
        End {
            status: order.status,
            paid_minor: order.paid_minor,
            fulfilments: self.fulfilments,
            in_exception,
        }
    }
}

/// What has to be the same in whatever order the events come.
#[derive(Debug, PartialEq)]
struct End {
    status: Status,
    paid_minor: i64,
    fulfilments: usize,
    /// The payments that somebody has to look at. Of several that could each pay the order, the
    /// first one does, so which are left depends on the order of delivery, how many does not: they are None here.
    in_exception: Vec<Option<String>>,
}

fn payable_payments(events: &[&Event]) -> BTreeSet<String> {
    events
        .iter()
        .filter(|event| {
            event.kind == Some(Kind::PaymentSucceeded)
                && event.amount_minor == Some(AMOUNT)
                && event
                    .currency
                    .is_some_and(|currency| currency.as_str() == "USD")
        })
        .map(|event| payment_of(event))
        .collect()
}

/// The end that the contract asks for, from the set of events alone: paid by one payment that fits,
/// every other payment in an exception (P7), and else the most advanced thing that was heard.
fn expected_end(events: &[&Event]) -> End {
    let payable = payable_payments(events);
    let heard = |kind| events.iter().any(|event| event.kind == Some(kind));
    let status = if !payable.is_empty() {
        Status::Completed
    } else if heard(Kind::PaymentExpired) {
        Status::Expired
    } else if heard(Kind::PaymentFailed) {
        Status::Failed
    } else if heard(Kind::PaymentAttempted) || heard(Kind::PaymentAuthorized) {
        Status::Processing
    } else {
        Status::Pending
    };
    let unpayable: BTreeSet<_> = events
        .iter()
        .filter(|event| event.kind == Some(Kind::PaymentSucceeded))
        .map(|event| payment_of(event))
        .filter(|payment| !payable.contains(payment))
        .collect();
    let left_over = std::iter::repeat_n(None, payable.len().saturating_sub(1));
    End {
        status,
        paid_minor: if payable.is_empty() { 0 } else { AMOUNT },
        fulfilments: usize::from(!payable.is_empty()),
        in_exception: left_over.chain(unpayable.into_iter().map(Some)).collect(),
    }
}

fn numbered(number: usize, kind: Kind, payment: Option<&str>) -> Event {
    let references = payment.map(|payment| Reference {
        kind: "payment".into(),
        value: payment.into(),
    });
    Event {
        event_id: Some(format!("evt_{number}")),
        references: references.into_iter().collect(),
        ..event(kind)
    }
}

/// What may be heard about one order.
fn pool() -> Vec<Event> {
    let bank = Reference {
        kind: "bank".into(),
        value: "UTR1".into(),
    };
    let mut with_bank_reference = numbered(1, Kind::PaymentSucceeded, Some("pi_1"));
    with_bank_reference.references.insert(0, bank);
    vec![
        numbered(0, Kind::PaymentAttempted, Some("pi_1")),
        with_bank_reference,
        numbered(2, Kind::PaymentSucceeded, Some("pi_1")), // the same payment under another event id
        Event {
            amount_minor: Some(900),
            ..numbered(3, Kind::PaymentSucceeded, Some("pi_1"))
        }, // and once more, otherwise
        numbered(4, Kind::PaymentSucceeded, Some("pi_2")), // a second payment
        numbered(5, Kind::PaymentSucceeded, None),         // another, without a reference
        Event {
            amount_minor: Some(1100),
            ..numbered(6, Kind::PaymentSucceeded, Some("pi_3"))
        },
        Event {
            amount_minor: Some(1100),
            ..numbered(7, Kind::PaymentSucceeded, Some("pi_3"))
        },
        Event {
            currency: "EUR".parse().ok(),
            ..numbered(8, Kind::PaymentSucceeded, Some("pi_4"))
        },
        numbered(9, Kind::PaymentFailed, Some("pi_1")),
        numbered(10, Kind::PaymentExpired, None),
    ]
}

/// Calls `check` with every permutation of `items` (Heap's algorithm).
fn each_permutation<T>(items: &mut [T], length: usize, check: &mut impl FnMut(&[T])) {
    if length <= 1 {
        return check(items);
    }
    for i in 0..length {
        each_permutation(items, length - 1, check);
        let swapped = if length.is_multiple_of(2) { i } else { 0 };
        if i + 1 < length {
            items.swap(swapped, length - 1);
        }
    }
}

/// Delivers the events, makes the order before the one at `created`, and delivers all of them again.
fn run(events: &[&Event], created: usize) -> Tables {
    let mut tables = Tables::default();
    for (i, event) in events.iter().enumerate() {
        if i == created {
            tables.create_order();
        }
        tables.ingest(event);
    }
    if tables.order.is_none() {
        tables.create_order();
    }
    for event in events {
        tables.ingest(event);
    }
    tables
}

#[test]
fn every_delivery_order_ends_in_the_same_state() {
    // P8, for every set of up to five events, in every order, with the order made at every moment.
    let pool = pool();
    let mut runs = 0;
    for chosen in 0u32..1 << pool.len() {
        if chosen.count_ones() > 5 {
            continue;
        }
        let mut events: Vec<&Event> = pool
            .iter()
            .enumerate()
            .filter(|(i, _)| chosen & (1 << i) != 0)
            .map(|(_, event)| event)
            .collect();
        let (length, expected) = (events.len(), expected_end(&events));
        each_permutation(&mut events, length, &mut |events| {
            for created in 0..=events.len() {
                assert_eq!(
                    run(events, created).end(events),
                    expected,
                    "order made before {created}: {events:#?}"
                );
                runs += 1;
            }
        });
    }
    // sum of C(11, k) * k! * (k + 1)
    assert_eq!(runs, 1 + 11 * 2 + 55 * 6 + 165 * 24 + 330 * 120 + 462 * 720);
}

fn any_event() -> impl Strategy<Value = Event> {
    let kind = prop_oneof![
        4 => Just(Kind::PaymentSucceeded),
        6 => prop::sample::select(&Kind::ALL[..]),
    ];
    let payment = prop::sample::select(vec![None, Some("pi_1"), Some("pi_2"), Some("pi_3")]);
    let amount = prop_oneof![
        2 => Just(Some(AMOUNT)),
        1 => prop::option::of(prop::sample::select(vec![-AMOUNT, 0, 1, AMOUNT - 1, AMOUNT + 1, i64::MIN, i64::MAX])),
    ];
    let currency = prop::sample::select(vec![Some("USD"), Some("usd"), Some("EUR"), None]);
    (kind, payment, amount, currency).prop_map(|(kind, payment, amount_minor, currency)| Event {
        amount_minor,
        currency: currency.map(|code| code.parse().unwrap()),
        ..numbered(0, kind, payment)
    })
}

proptest! {
    #[test]
    fn long_histories_end_in_the_same_state(
        (mut events, shuffled) in prop::collection::vec(any_event(), 0..16).prop_flat_map(|events| {
            let places: Vec<usize> = (0..events.len()).collect();
            (Just(events), Just(places).prop_shuffle())
        }),
        created in 0usize..17,
    ) {
        for (number, event) in events.iter_mut().enumerate() {
            event.event_id = Some(format!("evt_{number}"));
        }
        let events: Vec<&Event> = events.iter().collect();
        let shuffled: Vec<&Event> = shuffled.into_iter().map(|place| events[place]).collect();
        prop_assert_eq!(run(&events, 0).end(&events), expected_end(&events));
        prop_assert_eq!(run(&shuffled, created).end(&events), expected_end(&events));
    }

    /// P1 and P6 while it happens, not only in the end.
    #[test]
    fn no_delivery_takes_an_order_back_or_pays_it_twice(
        mut events in prop::collection::vec(any_event(), 0..16),
    ) {
        let mut tables = Tables::default();
        tables.create_order();
        let mut status = Status::Pending;
        for (number, event) in events.iter_mut().enumerate() {
            event.event_id = Some(format!("evt_{number}"));
            tables.ingest(event);
            let order = tables.order.as_ref().unwrap();
            prop_assert!(order.status >= status);
            status = order.status;
            prop_assert_eq!(order.paid_minor, if status == Status::Completed { AMOUNT } else { 0 });
            prop_assert_eq!(tables.fulfilments, usize::from(status == Status::Completed));
        }
    }
}
