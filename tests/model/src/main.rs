//! Random concurrent histories against a reference model; see README.md.

mod broken;
mod check;
mod history;
mod model;
mod promise;
mod random;
mod reading;
mod run;
mod serial;
mod tables;

use std::collections::BTreeMap;
use std::error::Error;
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use check::Fault;
use history::History;
use run::{Course, Done, Server};
use tables::{broken_invariants, Tables};

const SHOWN: usize = 3; // failures that are shrunk and printed

struct Options {
    seed: u64,
    histories: usize,
    /// Whether to prove first that the checks can fail.
    faults: bool,
}

fn options() -> Options {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    // The short run, which judges every change, always has the same histories; the full one looks for new ones.
    let (seed, histories) = match std::env::var("SCALE").as_deref() {
        Ok("full") => (now * 10_000, 8000),
        _ => (1, 600),
    };
    let mut options = Options { seed, histories, faults: true };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|n| n.parse().ok()).unwrap_or_else(|| usage());
        match argument.as_str() {
            "--seed" => options.seed = number(),
            "--histories" => options.histories = number() as usize,
            "--no-faults" => options.faults = false,
            _ => usage(),
        }
    }
    options
}

fn usage() -> ! {
    eprintln!("usage: payment_idem_model [--seed N] [--histories N] [--no-faults]");
    std::process::exit(2)
}

/// How a history went, and what is wrong with it.
type Verdict = (Course, Vec<Fault>);

/// Runs the history and looks at what it left.
fn run_one(server: &mut Server, history: &History) -> Result<Verdict, Box<dyn Error>> {
    let course = server.run(history)?;
    let tables = Tables::read(&mut server.admin, course.tenant)?;
    let faults = check::examine(history, &course, &tables);
    Ok((course, faults))
}

/// Adds what `check_invariants()` finds; it reads whole tables, so many histories share one call.
fn add_broken_invariants(server: &mut Server, results: &mut [Verdict]) -> Result<(), Box<dyn Error>> {
    let tenants: Vec<_> = results.iter().map(|(course, _)| course.tenant).collect();
    for (tenant, what) in broken_invariants(&mut server.admin, &tenants)? {
        let (_, faults) =
            results.iter_mut().find(|(course, _)| course.tenant == tenant).expect("asked for these only");
        faults.push(("invariant", what));
    }
    Ok(())
}

/// Leaves out step after step as long as the same check still finds something.
fn shrink(
    server: &mut Server,
    history: History,
    check: &str,
) -> Result<(History, Option<Verdict>), Box<dyn Error>> {
    let (mut history, mut at, mut last) = (history, 0, None);
    'steps: while let Some(smaller) = history.without(at) {
        for _ in 0..3 {
            // A race does not lose every time.
            let mut result = [run_one(server, &smaller)?];
            if check == "invariant" {
                add_broken_invariants(server, &mut result)?;
            }
            let [(course, faults)] = result;
            if faults.iter().any(|fault| fault.0 == check) {
                (history, last) = (smaller, Some((course, faults)));
                continue 'steps;
            }
        }
        at += 1;
    }
    Ok((history, last))
}

fn print(history: &History, course: &Course, faults: &[Fault]) {
    let began = course.done.iter().map(|done| done.from).min().unwrap_or_else(Instant::now);
    println!(
        "  source's merchant: {:?}, own rules: {:?}",
        history.source_merchant,
        history.own_rules.is_some()
    );
    for order in &history.before {
        println!("  before: {}", history::Call::CreateOrder(order.clone()));
    }
    let mut done: Vec<&Done> = course.done.iter().collect();
    done.sort_by_key(|done| (done.from, done.until));
    for done in done {
        let times = ((done.from - began).as_micros(), (done.until - began).as_micros());
        let end = if done.committed { "" } else { " ROLLBACK" };
        let form = format!("{:?} {}{end}", done.form, done.level);
        println!(
            "  {:>6}-{:<6} us session {} transaction {} ({form})",
            times.0, times.1, done.session, done.transaction
        );
        let (told, reason) = (&done.told, done.told.reason.as_deref().unwrap_or(""));
        println!("      {} -> {} {reason} {}", done.call, told.outcome, told.status.as_deref().unwrap_or(""));
    }
    for (check, what) in faults {
        println!("  [{check}] {what}");
    }
}

/// What the histories were made of, so that a run shows what it reached.
#[derive(Default)]
struct Totals {
    calls: usize,
    committed: usize,
    retries: usize,
    answers: BTreeMap<String, usize>,
}

impl Totals {
    fn add(&mut self, done: &[Done]) {
        for done in done {
            self.calls += 1;
            self.committed += usize::from(done.committed);
            self.retries += done.retries;
            let reason = done.told.reason.iter().map(|reason| format!(" {reason}")).collect::<String>();
            *self.answers.entry(format!("{}{reason}", done.told.outcome)).or_default() += 1;
        }
    }
}

/// Histories from the seed on; how many passed and failed.
fn prove(server: &mut Server, options: &Options) -> Result<(usize, usize), Box<dyn Error>> {
    let began = Instant::now();
    let (mut passed, mut failed, mut totals) = (0, 0, Totals::default());
    let seeds: Vec<u64> = (options.seed..).take(options.histories).collect();
    println!("{} histories from seed {}", options.histories, options.seed);
    for seeds in seeds.chunks((options.histories / 40).clamp(1, 200)) {
        let mut results = Vec::new();
        for seed in seeds {
            let result = run_one(server, &history::random(*seed))?;
            totals.add(&result.0.done);
            results.push(result);
        }
        add_broken_invariants(server, &mut results)?;
        for (seed, (course, faults)) in seeds.iter().zip(results) {
            if faults.is_empty() {
                passed += 1;
                continue;
            }
            failed += 1;
            let history = history::random(*seed);
            println!("FAILED  --seed {seed} --histories 1: {} ({} steps)", faults[0].0, history.steps());
            if failed <= SHOWN {
                print(&history, &course, &faults);
                let (smaller, last) = shrink(server, history, faults[0].0)?;
                if let Some((course, faults)) = last {
                    println!("  the same with {} steps:", smaller.steps());
                    print(&smaller, &course, &faults);
                }
            }
        }
    }
    println!(
        "{} calls, {} committed, {} retries, {:.0?}",
        totals.calls,
        totals.committed,
        totals.retries,
        began.elapsed()
    );
    for (answer, count) in &totals.answers {
        println!("  {count:>7} {answer}");
    }
    Ok((passed, failed))
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let options = options();
    let mut server = Server::connect()?;
    let (mut passed, mut failed) = (0, 0);
    if options.faults {
        for (name, seen) in broken::seen(&mut server, options.seed)? {
            println!("{}  seen: {name}", if seen { "ok    " } else { "FAILED" });
            *(if seen { &mut passed } else { &mut failed }) += 1;
        }
    }
    let (well, badly) = prove(&mut server, &options)?;
    (passed, failed) = (passed + well, failed + badly);
    println!("{passed} passed, {failed} failed");
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
