//! Random, mutated and grammar-made deliveries through SQL `payment_idem.ingest` and `ingest_batch`,
//! half of them validly signed.
//!
//! Every answer is judged by an oracle of our own: is the signature worth anything, was it these bytes
//! before, is the event sure to be readable? No SQL error is ever right. A failure is printed with the
//! seed and all that was sent and, where it is an error or a crash, with the smallest body that still
//! brings it about.
//!
//! Needs PGHOST, PGPORT, PGUSER and PGDATABASE: an empty database with the extension in it. SCALE is
//! short or full. The seed is fixed where SCALE is short and new where it is full; PAYMENT_IDEM_SEED
//! repeats a run, PAYMENT_IDEM_CHUNK one chunk of it, and PAYMENT_IDEM_CASES sets the number of
//! deliveries. More bodies to mutate lie in the folder `payloads` beside PAYMENT_IDEM_VECTORS, where
//! that is set. Only signed timestamps depend on the hour.

mod body;
mod delivery;
mod endpoint;
mod event;
mod session;
mod signature;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use std::{env, fs, thread};

use postgres::Client;
use uuid::Uuid;

use crate::delivery::{ANSWERS, CHUNK, Plan, SESSIONS};
use crate::session::{Error, Seen, Session, connect};

fn setting<T: std::str::FromStr>(name: &str) -> Result<Option<T>, Error> {
    let parse = |text: String| text.parse().map_err(|_| format!("{name} is no number: {text}").into());
    env::var(name).ok().filter(|text| !text.is_empty()).map(parse).transpose()
}

/// Bodies of real gateways; sorted, so that the same seed draws the same ones.
fn seeds() -> Result<Vec<Vec<u8>>, Error> {
    let Some(vectors) = env::var_os("PAYMENT_IDEM_VECTORS") else { return Ok(Vec::new()) };
    let folder = Path::new(&vectors).with_file_name("payloads");
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut paths =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, Error>>()?;
    paths.sort();
    paths.iter().map(|path| Ok(fs::read(path)?)).collect()
}

/// Runs every `SESSIONS`th chunk, from the given one on.
fn run(plan: &Plan, chunks: impl Iterator<Item = u64>) -> Result<(Uuid, Seen), Error> {
    let mut session = Session::new(plan)?;
    let backend = session.backend()?;
    for chunk in chunks {
        if !session.run(chunk)? {
            break;
        }
    }
    if session.backend().ok() != Some(backend) {
        session.seen.failures.push("a backend died".to_owned());
    }
    Ok((session.tenant, session.seen))
}

fn server(client: &mut Client) -> Result<(SystemTime, i32), Error> {
    let row = client.query_one("SELECT pg_postmaster_start_time(), pg_backend_pid()", &[])?;
    Ok((row.get(0), row.get(1)))
}

fn main() -> Result<ExitCode, Error> {
    let full = env::var("SCALE").is_ok_and(|scale| scale == "full");
    let random = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u32;
    let seed = setting("PAYMENT_IDEM_SEED")?.unwrap_or(if full { random.into() } else { 1 });
    let cases: u64 = setting("PAYMENT_IDEM_CASES")?.unwrap_or(if full { 10_000_000 } else { 100_000 });
    let chunks = match setting::<u64>("PAYMENT_IDEM_CHUNK")? {
        Some(only) => only..only + 1,
        None => 0..cases.div_ceil(CHUNK),
    };
    let plan = Plan { seed, secret: format!("fuzz secret {seed}"), seeds: seeds()? };
    println!(
        "PAYMENT_IDEM_SEED={seed}, {} chunks of {CHUNK}, {} bodies to mutate",
        chunks.clone().count(),
        plan.seeds.len()
    );

    let mut client = connect()?; // open all the while: a restart after a crash would end it
    let before = server(&mut client)?;
    let began = Instant::now();
    let sessions = thread::scope(|scope| {
        let start = |session| {
            let (plan, share) = (&plan, chunks.clone().filter(move |chunk| chunk % SESSIONS == session));
            scope.spawn(move || run(plan, share))
        };
        let started: Vec<_> = (0..SESSIONS).map(start).collect();
        started
            .into_iter()
            .map(|session| session.join().expect("no panic of our own"))
            .collect::<Result<Vec<_>, Error>>()
    })?;
    let took = began.elapsed().as_secs_f64();

    let mut answers = BTreeMap::<(String, String), u64>::new();
    for (_, seen) in &sessions {
        seen.answers.iter().for_each(|(answer, times)| *answers.entry(answer.clone()).or_default() += times);
    }
    answers.iter().for_each(|((outcome, reason), times)| println!("{times:9}  {outcome:16} {reason}"));
    let total = |figure: fn(&Seen) -> u64| sessions.iter().map(|(_, seen)| figure(seen)).sum::<u64>();
    let deliveries = answers.values().sum::<u64>();
    println!(
        "{deliveries} deliveries in {took:.0} s ({:.0} per second), {} of them authentic; {} receipts, {} repetitions \
         of an event that is sure to be readable",
        deliveries as f64 / took,
        total(|seen| seen.authentic),
        total(|seen| seen.taken),
        total(|seen| seen.repeated),
    );

    // A new session where that one was lost, for what is left to ask.
    let unharmed = server(&mut client).is_ok_and(|now| now == before);
    if !unharmed {
        client = connect()?;
    }
    let failures: Vec<_> = sessions.iter().flat_map(|(_, seen)| &seen.failures).collect();
    failures.iter().for_each(|failure| println!("\nseed {seed}, {failure}"));
    let every_answer = || {
        let all = ANSWERS
            .iter()
            .flat_map(|(outcome, reasons)| reasons.iter().map(move |reason| (*outcome, *reason)));
        let missing: Vec<_> =
            all.filter(|(o, r)| !answers.contains_key(&(o.to_string(), r.to_string()))).collect();
        if !missing.is_empty() {
            println!("never answered: {missing:?}");
        }
        missing.is_empty() && total(|seen| seen.repeated) > 0
    };
    let tenants: Vec<Uuid> = sessions.iter().map(|(tenant, _)| *tenant).collect();
    let receipts: i64 = client
        .query_one("SELECT count(*) FROM payment_idem.event_receipts WHERE tenant = ANY ($1)", &[&tenants])?
        .get(0);
    let began = Instant::now();
    let faults = client.query("SELECT i::text FROM payment_idem.check_invariants() AS i LIMIT 20", &[])?;
    faults.iter().for_each(|fault| println!("{}", fault.get::<_, String>(0)));
    println!("check_invariants() took {:.0} s", began.elapsed().as_secs_f64());

    let mut checks = vec![
        ("every answer is right, and no call raised", failures.is_empty()),
        ("one receipt for each event that was taken in", receipts as u64 == total(|seen| seen.taken)),
        ("the invariants hold", faults.is_empty()),
        ("the server was never restarted", unharmed),
    ];
    if chunks.clone().count() >= 100 {
        checks.push(("every outcome and reason was reached", every_answer())); // fewer may miss one
    }
    for (check, holds) in &checks {
        println!("{:7} {check}", if *holds { "ok" } else { "FAILED" });
    }
    let failed = checks.iter().filter(|(_, holds)| !holds).count();
    println!("{} passed, {failed} failed", checks.len() - failed);
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
