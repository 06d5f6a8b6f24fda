//! What `inspect` says beyond its verdict.

mod common;

use std::cell::Cell;

use common::gateway;
use payment_idem::domain::inspection::{Candidate, OTHER_SOURCE, RETIRED_SECRET, inspect};
use payment_idem::domain::money::Exponents;
use payment_idem::domain::place::Parameters;
use payment_idem::domain::signature::{AgeCheck, Delivery};

/// It tries many things, each a pass over the body, and can be stopped between any two.
#[test]
fn every_pass_over_the_body_can_be_the_last() {
    let none = Parameters::new();
    let generic = gateway("generic");
    let body = br#"{"id": "evt_1", "type": "ping"}"#;
    let delivery = Delivery { body, signature: Some(&"00".repeat(32)), headers: None, parameters: &none };
    let pauses = |candidates: &[Candidate<'_>]| {
        let count = Cell::new(0);
        let pause = || count.set(count.get() + 1);
        let exponents = Exponents::default();
        let report = inspect(&generic, &delivery, candidates, 0, AgeCheck::Definition, &exponents, &pause);
        assert_eq!(report["verdict"], "invalid");
        count.get()
    };
    let active = Candidate { text: "the secret of now", mistake: None };
    let few = pauses(&[active]);
    assert!(few > 10, "{few}");
    let active = Candidate { text: "the secret of now", mistake: None };
    let retired = Candidate { text: "the secret of old", mistake: Some(RETIRED_SECRET) };
    let other = Candidate { text: "the secret of another", mistake: Some(OTHER_SOURCE) };
    assert_eq!(pauses(&[active, retired, other]), few + 2, "one for each secret more");
}
