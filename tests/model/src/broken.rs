//! Proof that the checks can fail: servers with a fault and answers that no server may give, each of which the named
//! check has to see.

use std::error::Error;
use std::time::Duration;

use crate::check::{self, Fault};
use crate::history;
use crate::run::{Course, Server};
use crate::tables::{broken_invariants, Tables};

const HISTORIES: u64 = 40; // so many chances has each fault to show; most show in the first or second

/// A name, the check that sees it, the event of a trigger, and what the trigger does.
const FAULTS: [(&str, &str, &str, &str); 7] = [
    (
        "an order is fulfilled twice",
        "invariant",
        "AFTER INSERT ON payment_idem.outbox FOR EACH ROW WHEN (NEW.action = 'fulfil_order')",
        "INSERT INTO payment_idem.outbox (tenant, receipt, action, order_id, seq, available_at, created_at)
         VALUES (NEW.tenant, NEW.receipt, 'fulfil_again', NEW.order_id, NEW.seq + 1, now(), now())",
    ),
    (
        "an order falls back",
        "serial order",
        "AFTER UPDATE OF status ON payment_idem.orders FOR EACH ROW WHEN (NEW.status = 'FAILED')",
        "UPDATE payment_idem.orders SET status = 'PENDING' WHERE (tenant, order_id) = (NEW.tenant, NEW.order_id)",
    ),
    (
        "a paid order forgets one unit",
        "serial order",
        "AFTER UPDATE OF status ON payment_idem.orders FOR EACH ROW WHEN (NEW.status = 'COMPLETED')",
        "UPDATE payment_idem.orders SET paid_minor = paid_minor + 1
         WHERE (tenant, order_id) = (NEW.tenant, NEW.order_id)",
    ),
    (
        "an exception is closed unseen",
        "P7 visible",
        "AFTER INSERT ON payment_idem.exceptions FOR EACH ROW",
        "UPDATE payment_idem.exceptions SET resolution = 'closed', resolved_at = now()
         WHERE (tenant, exception_id) = (NEW.tenant, NEW.exception_id)",
    ),
    (
        "a reason is another one",
        "serial order",
        "AFTER INSERT ON payment_idem.event_receipts FOR EACH ROW WHEN (NEW.reason = 'stale')",
        "UPDATE payment_idem.event_receipts SET reason = 'already_in_state'
         WHERE (tenant, source, identity) = (NEW.tenant, NEW.source, NEW.identity)",
    ),
    (
        "a parked payment is forgotten",
        "answer",
        "AFTER INSERT ON payment_idem.event_receipts FOR EACH ROW WHEN (NEW.outcome = 'parked')",
        "DELETE FROM payment_idem.event_receipts
         WHERE (tenant, source, identity) = (NEW.tenant, NEW.source, NEW.identity)",
    ),
    (
        "a contradiction is not noted",
        "anomalies",
        "AFTER INSERT ON payment_idem.anomalies FOR EACH ROW",
        "DELETE FROM payment_idem.anomalies WHERE anomaly_id = NEW.anomaly_id",
    ),
];

/// A name, and how the record of a good course is changed; false where it has nothing to change.
type Lie = (&'static str, fn(&mut Course) -> bool);
const LIES: [Lie; 3] = [
    ("a duplicate is told before the first delivery", told_too_early),
    ("two deliveries are both the first", told_twice),
    ("a status is told that no longer is", told_too_late),
];

fn duplicate_of_an_applied(course: &Course) -> Option<usize> {
    course.done.iter().position(|done| {
        done.committed
            && done.told.outcome == "duplicate"
            && done.told.first_outcome.as_deref() == Some("applied")
    })
}

fn told_too_early(course: &mut Course) -> bool {
    let began = course.done.iter().map(|done| done.from).min();
    let (Some(i), Some(began)) = (duplicate_of_an_applied(course), began) else { return false };
    let long_before = began - Duration::from_secs(1);
    (course.done[i].from, course.done[i].until) = (long_before, long_before);
    true
}

fn told_twice(course: &mut Course) -> bool {
    let Some(i) = duplicate_of_an_applied(course) else { return false };
    course.done[i].told.outcome = "applied".into();
    true
}

fn told_too_late(course: &mut Course) -> bool {
    let last = course.done.iter_mut().rfind(|done| done.told.status.as_deref() == Some("COMPLETED"));
    last.map(|done| done.told.status = Some("PENDING".into())).is_some()
}

/// Each fault and each lie, by name, and whether its check saw it.
pub fn seen(server: &mut Server, seed: u64) -> Result<Vec<(&'static str, bool)>, Box<dyn Error>> {
    let mut results = Vec::new();
    for (name, check, event, action) in FAULTS {
        server.admin.batch_execute(&format!(
            "CREATE FUNCTION public.model_fault() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {action}; RETURN NULL; END $$;
             CREATE TRIGGER model_fault {event} EXECUTE FUNCTION public.model_fault()"
        ))?;
        let seen = first_that(seed, |seed| {
            Ok(faults_of(server, seed, |_| true)?.iter().any(|fault| fault.0 == check))
        });
        server.admin.batch_execute("DROP FUNCTION public.model_fault() CASCADE")?;
        results.push((name, seen?));
    }
    for (name, change) in LIES {
        let seen = first_that(seed, |seed| {
            Ok(faults_of(server, seed, change)?.iter().any(|fault| fault.0 == "serial order"))
        });
        results.push((name, seen?));
    }
    Ok(results)
}

fn first_that(
    seed: u64,
    mut holds: impl FnMut(u64) -> Result<bool, Box<dyn Error>>,
) -> Result<bool, Box<dyn Error>> {
    for seed in seed..seed + HISTORIES {
        if holds(seed)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn faults_of(
    server: &mut Server,
    seed: u64,
    change: fn(&mut Course) -> bool,
) -> Result<Vec<Fault>, Box<dyn Error>> {
    let history = history::random(seed);
    let mut course = server.run(&history)?;
    let tables = Tables::read(&mut server.admin, course.tenant)?;
    if !change(&mut course) {
        return Ok(Vec::new());
    }
    let mut faults = check::examine(&history, &course, &tables);
    faults.extend(
        broken_invariants(&mut server.admin, &[course.tenant])?
            .into_iter()
            .map(|(_, what)| ("invariant", what)),
    );
    Ok(faults)
}
