//! What each peer runs: its statements and their plans, as the server executes them for one event.

use std::sync::mpsc::{Sender, channel};

use crate::events::Shape;
use crate::peers::{PLPGSQL_SOURCE, Peer, Session};
use crate::report::heading;
use crate::server::{Database, Server};

/// Prints them. `auto_explain` tells the text and the plan of every statement, also inside functions.
pub fn print(server: &Server, database: &mut Database) {
    let peers = [
        (Peer::Floor, "(a) floor"),
        (Peer::Application, "(b) application"),
        (Peer::Plpgsql, "(c) plpgsql"),
        (Peer::Ours, "ours"),
    ];
    for (peer, name) in peers {
        heading(&format!("Statements and generic plans: {name}"));
        if peer == Peer::Plpgsql {
            println!("{PLPGSQL_SOURCE}");
        }
        let shape = Shape { random_ids: false, bank_reference: true };
        let events = database.factory.make(&mut database.control, 2, shape);
        let (sender, receiver) = channel();
        let mut session = open(server, database, peer, sender);
        session.deliver(&events[..1]);
        receiver.try_iter().for_each(drop); // connecting, and what is read once per session
        session.deliver(&events[1..]);
        drop(session);
        let plans: Vec<String> = receiver.into_iter().collect();
        assert!(!plans.is_empty(), "a plan of {name}");
        for plan in plans {
            println!("{plan}\n");
        }
    }
}

fn open(server: &Server, database: &Database, peer: Peer, plans: Sender<String>) -> Session {
    let settings = [
        ("session_preload_libraries", "auto_explain"),
        ("auto_explain.log_min_duration", "0"),
        ("auto_explain.log_nested_statements", "on"),
        ("client_min_messages", "log"),
        ("plan_cache_mode", "force_generic_plan"),
    ];
    let note = move |message: &str| {
        // "duration: 0.1 ms  plan:" says nothing here: the first execution is not what is measured.
        if let Some((_, plan)) = message.split_once("plan:\n") {
            let _ = plans.send(plan.to_owned());
        }
    };
    Session::open_with(server, database.name, database.tenant(), peer, false, &settings, note)
}
