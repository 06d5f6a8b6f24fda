//! The outcome table: which words there are, and which HTTP status goes with each.

use payment_idem::domain::outcome::{HttpStatuses, Outcome, Reason, default_http_status};

/// The outcome table of the contract: outcome, reasons, default status.
const TABLE: &[(&str, &[&str], u16)] = &[
    ("applied", &[], 200),
    (
        "recorded",
        &["informational", "unmapped_type", "same_payment", "already_in_state", "stale", "test_mode"],
        200,
    ),
    ("duplicate", &["informational", "order_not_found", "amount_mismatch"], 200),
    ("parked", &["order_not_found", "awaiting_details"], 200),
    (
        "exception",
        &[
            "amount_mismatch",
            "currency_mismatch",
            "reference_mismatch",
            "second_payment",
            "reference_reused",
            "transition_not_allowed",
            "payload_unreadable",
        ],
        200,
    ),
    ("digest_conflict", &[], 200),
    ("rejected", &["signature_mismatch", "signature_malformed", "timestamp_out_of_tolerance"], 401),
    ("rejected", &["no_active_secret"], 503),
    ("rejected", &["event_id_malformed", "event_id_mismatch"], 400),
    ("rejected", &["too_large"], 413),
];

fn outcome(word: &str) -> Outcome {
    Outcome::from_word(word).unwrap_or_else(|| panic!("{word} is no outcome"))
}

fn reason(word: &str) -> Reason {
    Reason::from_word(word).unwrap_or_else(|| panic!("{word} is no reason"))
}

/// The rows of the table, one a reason; without reason where there is none.
fn rows() -> Vec<(Outcome, Option<Reason>, u16)> {
    TABLE
        .iter()
        .flat_map(|(word, reasons, status)| {
            let reasons: Vec<_> = match reasons {
                [] => vec![None],
                reasons => reasons.iter().map(|word| Some(reason(word))).collect(),
            };
            reasons.into_iter().map(|reason| (outcome(word), reason, *status))
        })
        .collect()
}

#[test]
fn default_status_is_the_tables() {
    for (outcome, reason, status) in rows() {
        assert_eq!(default_http_status(outcome, reason), status, "{outcome} {reason:?}");
        assert_eq!(HttpStatuses::default().get(outcome, reason), status, "{outcome} {reason:?}");
    }
}

#[test]
fn only_rejections_are_told_the_gateway() {
    for &outcome in Outcome::ALL {
        for reason in Reason::ALL.iter().copied().map(Some).chain([None]) {
            let ok = default_http_status(outcome, reason) == 200;
            assert_eq!(ok, outcome != Outcome::Rejected, "{outcome} {reason:?}");
        }
    }
}

#[test]
fn every_word_is_in_the_table_and_reads_back() {
    for &outcome in Outcome::ALL {
        assert!(rows().iter().any(|row| row.0 == outcome), "{outcome} is not in the table");
        assert_eq!(Outcome::from_word(outcome.as_str()), Some(outcome));
        assert_eq!(outcome.to_string(), outcome.as_str());
    }
    for &reason in Reason::ALL {
        assert!(rows().iter().any(|row| row.1 == Some(reason)), "{reason} is not in the table");
        assert_eq!(Reason::from_word(reason.as_str()), Some(reason));
        assert_eq!(reason.to_string(), reason.as_str());
    }
    for word in ["", "Applied", "applied ", "APPLIED", "stale", "unknown"] {
        assert_eq!(Outcome::from_word(word), None, "{word:?}");
    }
    for word in ["", "Stale", " stale", "applied"] {
        assert_eq!(Reason::from_word(word), None, "{word:?}");
    }
}

#[test]
fn override_of_a_reason_goes_before_that_of_its_outcome() {
    let mut statuses = HttpStatuses::default();
    statuses.set("rejected", 403).unwrap();
    statuses.set("rejected/no_active_secret", 500).unwrap();
    statuses.set("exception/amount_mismatch", 422).unwrap();
    statuses.set("applied", 204).unwrap();

    for (outcome, reason, default) in rows() {
        let expected = match (outcome.as_str(), reason.map(Reason::as_str)) {
            ("rejected", Some("no_active_secret")) => 500,
            ("rejected", _) => 403,
            ("exception", Some("amount_mismatch")) => 422,
            ("applied", _) => 204,
            _ => default,
        };
        assert_eq!(statuses.get(outcome, reason), expected, "{outcome} {reason:?}");
    }
    // A reason is overridden under its outcome alone.
    assert_eq!(statuses.get(Outcome::Duplicate, Some(Reason::AmountMismatch)), 200);
}

#[test]
fn the_order_of_overrides_does_not_matter_and_the_last_one_holds() {
    let mut statuses = HttpStatuses::default();
    statuses.set("parked/order_not_found", 202).unwrap();
    statuses.set("parked", 404).unwrap();
    statuses.set("parked/order_not_found", 425).unwrap();
    assert_eq!(statuses.get(Outcome::Parked, Some(Reason::OrderNotFound)), 425);
}

#[test]
fn bounds_of_a_status() {
    let mut statuses = HttpStatuses::default();
    for status in [100, 599] {
        statuses.set("applied", status).unwrap();
        assert_eq!(i64::from(statuses.get(Outcome::Applied, None)), status);
    }
    for status in [99, 600, 0, -200, 65_736 /* 200 in 16 bits */, i64::MAX, i64::MIN] {
        assert!(statuses.set("applied", status).is_err(), "{status}");
    }
    assert_eq!(statuses.get(Outcome::Applied, None), 599, "a refused override changes nothing");
}

#[test]
fn a_key_that_names_nothing_is_refused_with_its_name() {
    let mut statuses = HttpStatuses::default();
    for (key, named) in [
        ("accepted", "accepted"),
        ("Applied", "Applied"),
        ("", "\"\""),
        ("/stale", "\"\""),
        ("recorded/", "\"\""),
        ("recorded/stail", "stail"),
        ("recorded/stale/stale", "stale/stale"),
        ("stale", "stale"),
    ] {
        let fault = statuses.set(key, 200).unwrap_err();
        assert!(fault.contains(named), "{key:?}: {fault}");
    }
}
