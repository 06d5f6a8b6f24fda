//! The cluster under test: connections, databases, and what it is made of.

use std::env;
use std::path::PathBuf;

use postgres::{Client, Config, NoTls};
use uuid::Uuid;

use crate::events::{Factory, MERCHANT, SECRET};
use crate::peers::PLPGSQL_SOURCE;

/// Where the cluster listens, by the environment that `scripts/cluster.sh env` gives.
pub struct Server {
    socket: PathBuf,
    port: u16,
    user: String,
}

impl Server {
    pub fn from_environment() -> Self {
        let variable = |name: &str| env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
        Server {
            socket: variable("PGHOST").into(),
            port: variable("PGPORT").parse().expect("a port"),
            user: variable("PGUSER"),
        }
    }

    pub fn config(&self, database: &str, tcp: bool) -> Config {
        let mut config = Config::new();
        config.user(&self.user).dbname(database).port(self.port);
        if tcp {
            config.host("127.0.0.1")
        } else {
            config.host_path(&self.socket)
        };
        config
    }

    pub fn connect(&self, database: &str) -> Client {
        // Commits of what is prepared need not wait for the disk.
        let options = "-c synchronous_commit=off -c enable_seqscan=off -c client_min_messages=error";
        self.config(database, false).options(options).connect(NoTls).expect("a connection")
    }

    /// A fresh database with the extension, the peers' objects and one tenant in it.
    pub fn fresh(&self, database: &'static str) -> Database {
        let mut maintenance = self.connect("postgres");
        for sql in [
            format!("DROP DATABASE IF EXISTS {database} WITH (FORCE)"),
            format!("CREATE DATABASE {database}"),
        ] {
            maintenance.batch_execute(&sql).expect(&sql);
        }
        let mut control = self.connect(database);
        for sql in [
            "CREATE EXTENSION payment_idem",
            include_str!("../sql/setup.sql"),
            PLPGSQL_SOURCE,
            include_str!("../sql/fill.sql"),
        ] {
            control.batch_execute(sql).unwrap_or_else(|error| panic!("{error:?}\n{sql}"));
        }
        let tenant = Uuid::new_v4();
        control.execute("SELECT payment_idem.create_tenant('bench', $1)", &[&tenant]).expect("a tenant");
        control
            .execute(
                "SELECT payment_idem.create_source($1, 'default', 'generic', jsonb_build_object('merchant_id', $2::text))",
                &[&tenant, &MERCHANT],
            )
            .expect("a source");
        control
            .execute("SELECT payment_idem.add_secret($1, 'default', $2)", &[&tenant, &SECRET])
            .expect("a secret");
        Database { name: database, control, factory: Factory::new(tenant), filled: 0 }
    }

    pub fn drop(&self, database: Database) {
        let name = database.name;
        drop(database);
        self.connect("postgres")
            .batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)"))
            .expect("dropped");
    }
}

/// A database of the bench, with the connection that prepares and counts.
pub struct Database {
    pub name: &'static str,
    pub control: Client,
    pub factory: Factory,
    filled: i64,
}

impl Database {
    pub fn tenant(&self) -> Uuid {
        self.factory.tenant
    }

    /// Paid orders in bulk until there are so many.
    pub fn fill_to(&mut self, receipts: i64, random_ids: bool) {
        const PIECE: i64 = 50_000;
        let tenant = self.tenant();
        while self.filled < receipts {
            let last = receipts.min(self.filled + PIECE);
            self.control
                .execute(
                    "CALL bench.fill($1, $2, $3, $4)",
                    &[&tenant, &(self.filled + 1), &last, &random_ids],
                )
                .expect("a fill");
            self.filled = last;
        }
    }

    pub fn run(&mut self, sql: &str) {
        self.control.batch_execute(sql).expect(sql);
    }

    pub fn value<T: for<'a> postgres::types::FromSql<'a>>(&mut self, sql: &str) -> T {
        self.control.query_one(sql, &[]).expect(sql).get(0)
    }

    /// Whether the extension has this function.
    pub fn has(&mut self, function: &str) -> bool {
        self.value(&format!(
            "SELECT EXISTS (SELECT FROM pg_proc WHERE pronamespace = 'payment_idem'::regnamespace AND proname = '{function}')"
        ))
    }
}
