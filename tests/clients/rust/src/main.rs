//! tokio-postgres. It prepares every statement; here each is kept.

use std::collections::HashMap;
use std::env;
use std::error::Error;
use std::io::{stdin, BufRead};

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Statement};
use uuid::Uuid;

fn sql(form: &str) -> &'static str {
    match form {
        "bytes as bytea" | "string as bytea" => "SELECT * FROM payment_idem.ingest($1, $2, $3::bytea, $4)",
        "bytes in a batch" => {
            "SELECT * FROM payment_idem.ingest_batch($1, $2::text[], $3::bytea[], $4::text[])"
        }
        "string as text" => "SELECT * FROM payment_idem.ingest($1, $2, $3::text, $4)",
        _ => "SELECT * FROM payment_idem.ingest($1, $2, $3, $4)",
    }
}

async fn deliver(client: &Client, statement: &Statement, values: [&(dyn ToSql + Sync); 4]) -> String {
    match client.query_one(statement, &values).await {
        Ok(row) => {
            let reason: Option<&str> = row.get("reason");
            let (outcome, digest): (&str, &str) = (row.get("outcome"), row.get("payload_sha256"));
            format!("{outcome}\t{}\t{digest}", reason.unwrap_or_default())
        }
        Err(error) => format!("error\t{}", error.code().map_or("client", |state| state.code())),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let settings = format!(
        "host=127.0.0.1 port={} user={} dbname={}",
        env::var("PAYMENT_IDEM_TCP_PORT")?,
        env::var("PGUSER")?,
        env::var("PGDATABASE")?
    );
    let (client, connection) = tokio_postgres::connect(&settings, NoTls).await?;
    tokio::spawn(connection);
    let tenant: Uuid = env::var("TENANT")?.parse()?;
    let mut statements = HashMap::new();

    for line in stdin().lock().lines() {
        let line = line?;
        let fields: Vec<&str> = line.split('\t').collect();
        let [form, event_id, body, signature] = fields[..] else {
            let row = client.query_one(&env::var("PREPARED")?, &[]).await?;
            println!("{}", row.get::<_, &str>(0));
            continue;
        };
        if !statements.contains_key(sql(form)) {
            statements.insert(sql(form), client.prepare(sql(form)).await?);
        }
        let payload = hex::decode(body)?;
        let text = String::from_utf8_lossy(&payload);
        let given: &(dyn ToSql + Sync) = if form.starts_with("bytes") { &payload } else { &text };
        let statement = &statements[sql(form)];
        println!(
            "{}",
            match form.ends_with("batch") {
                true =>
                    deliver(&client, statement, [&tenant, &vec![event_id], &vec![&payload], &vec![signature]])
                        .await,
                false => deliver(&client, statement, [&tenant, &event_id, given, &signature]).await,
            }
        );
    }
    Ok(())
}
