//! What needs a running server but neither several sessions nor a client: SPI, privileges, and
//! that the two authors of the chain hash agree.

#[pgrx::pg_schema]
mod tests {
    use hmac::{Hmac, KeyInit, Mac};
    use pgrx::{Spi, Uuid, pg_test};
    use sha2::Sha256;

    use crate::domain::ledger::Line;
    use crate::domain::order::Status;

    const TENANT: &str = "11111111-1111-4111-8111-111111111111";
    const SECRET: &str = "whsec_test_secret";

    fn sql(text: &str) {
        Spi::run(text).expect("the statement runs");
    }

    fn one(text: &str) -> String {
        Spi::get_one(text).expect("the statement runs").unwrap_or_else(|| "NULL".to_owned())
    }

    fn shop() {
        sql(&format!("SELECT payment_idem.create_tenant('shop', '{TENANT}')"));
        sql(&format!(
            "SELECT payment_idem.create_source('{TENANT}', 'default', 'generic', '{{\"merchant_id\": \"m1\"}}')"
        ));
        sql(&format!("SELECT payment_idem.add_secret('{TENANT}', 'default', '{SECRET}')"));
        sql(&format!("SELECT payment_idem.create_order('{TENANT}', 'm1', 'O1', 10.00, 'USD')"));
    }

    fn body(event_id: &str) -> String {
        format!(
            r#"{{"id":"{event_id}","type":"paid","order":"O1","amount":1000,"currency":"usd","payment":"pi_1"}}"#
        )
    }

    /// The call that delivers a body, signed.
    fn delivery(body: &str) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).expect("any key length does");
        mac.update(body.as_bytes());
        let sig = hex::encode(mac.finalize().into_bytes());
        format!("payment_idem.ingest('{TENANT}', NULL, '{body}'::text, '{sig}')")
    }

    fn outcome(body: &str) -> String {
        one(&format!("SELECT outcome || coalesce('/' || reason, '') FROM {}", delivery(body)))
    }

    /// P1, P4: in one transaction, too, the same event has one effect.
    #[pg_test]
    fn p1_one_event_has_one_effect() {
        shop();
        assert_eq!(outcome(&body("evt_1")), "applied");
        assert_eq!(outcome(&body("evt_1")), "duplicate");
        assert_eq!(
            one("SELECT concat_ws(' ', (SELECT count(*) FROM payment_idem.transactions), \
                        (SELECT count(*) FROM payment_idem.outbox), (SELECT status FROM payment_idem.orders))"),
            "1 1 COMPLETED"
        );
    }

    /// P2: a row written in a subtransaction would bear another transaction id than ours.
    #[pg_test]
    fn p2_no_subtransaction_is_opened() {
        shop();
        assert_eq!(outcome(&body("evt_1")), "applied");
        for table in ["event_receipts", "transactions", "orders", "outbox", "payment_references", "payloads"]
        {
            let foreign = one(&format!(
                "SELECT count(*)::text FROM payment_idem.{table} WHERE xmin <> pg_current_xact_id()::xid"
            ));
            assert_eq!(foreign, "0", "{table}");
        }
    }

    /// The configuration that a backend keeps follows a change at once in the transaction that makes it.
    #[pg_test]
    fn kept_configuration_follows_a_change() {
        shop();
        assert_eq!(outcome(&body("evt_1")), "applied");
        sql("SELECT payment_idem.retire_secret(max(secret_id)) FROM payment_idem.signing_secrets");
        assert_eq!(outcome(&body("evt_1")), "rejected/no_active_secret");
        sql(&format!("SELECT payment_idem.add_secret('{TENANT}', 'default', '{SECRET}')"));
        assert_eq!(outcome(&body("evt_1")), "duplicate");
        sql("DELETE FROM payment_idem.transition_rules");
        sql("UPDATE payment_idem.orders SET gateway_order_id = 'G1'");
        let other = body("evt_2").replace("pi_1", "pi_2");
        assert_eq!(outcome(&other), "exception/second_payment");
    }

    /// Our statements are planned for large tables; the session's own are not.
    #[pg_test]
    fn planning_of_the_session_is_left_alone() {
        shop();
        assert_eq!(outcome(&body("evt_1")), "applied");
        let plan = one("EXPLAIN SELECT * FROM payment_idem.currencies");
        let rows: u64 = plan
            .split("rows=")
            .nth(1)
            .and_then(|rest| rest.split(' ').next())
            .expect("rows")
            .parse()
            .unwrap();
        assert!(rows < 100_000, "{plan}");
    }

    /// P3: a NULL is the caller's fault, and never a silent success.
    #[pg_test(error = "argument \"tenant\" must not be NULL")]
    fn p3_null_tenant_is_refused() {
        sql("SELECT payment_idem.ingest(NULL, 'evt_1', 'body'::text, 'sig')");
    }

    /// P3, P10: a role without a grant is told the same as of a tenant that does not exist.
    #[pg_test(error = "no access to tenant 11111111-1111-4111-8111-111111111111")]
    fn p3_ungranted_role_is_refused() {
        shop();
        sql("CREATE ROLE payment_idem_stranger");
        sql("GRANT USAGE ON SCHEMA payment_idem TO payment_idem_stranger");
        sql(
            "GRANT EXECUTE ON FUNCTION payment_idem.ingest(uuid, text, text, text, text, jsonb) TO payment_idem_stranger",
        );
        sql("SET ROLE payment_idem_stranger");
        sql(&format!("SELECT {}", delivery(&body("evt_1"))));
    }

    /// A granted role needs no privilege on any table.
    #[pg_test]
    fn granted_role_delivers() {
        shop();
        sql("CREATE ROLE payment_idem_app");
        sql("GRANT USAGE ON SCHEMA payment_idem TO payment_idem_app");
        sql(
            "GRANT EXECUTE ON FUNCTION payment_idem.ingest(uuid, text, text, text, text, jsonb) TO payment_idem_app",
        );
        sql(&format!(
            "INSERT INTO payment_idem.role_grants (role_name, profile, tenant) VALUES ('payment_idem_app', 'ingest', '{TENANT}')"
        ));
        sql("SET ROLE payment_idem_app");
        assert_eq!(outcome(&body("evt_1")), "applied");
        sql("RESET ROLE");
    }

    /// P9: the hash that Rust makes is the one that SQL asks for, with and without NULLs.
    #[pg_test]
    fn p9_both_chain_hashes_agree() {
        for (prev_hash, event_id, utr) in
            [(None, None, None), (Some([7; 32]), Some("evt_1"), Some("412345678901"))]
        {
            let line = Line {
                prev_hash,
                tenant: [1; 16],
                receipt: 42,
                kind: "payment_succeeded",
                order_id: [2; 16],
                seq: 3,
                event_type: "WEBHOOK_RECEIVED",
                amount_minor: -1,
                currency: "INR",
                from_status: Status::Pending,
                to_status: Status::Completed,
                source: "default",
                event_id,
                gateway_order_id: None,
                bank_utr: utr,
                created_at_us: -1,
            };
            let quoted =
                |value: Option<String>| value.map_or("NULL".to_owned(), |value| format!("'{value}'"));
            let sql = format!(
                "SELECT encode(payment_idem.ledger_line_hash(ROW('{}', 42, 'payment_succeeded', '{}', 3, 'WEBHOOK_RECEIVED', -1, \
                 'INR', 'PENDING', 'COMPLETED', 'default', {}, NULL, {}, \
                 timestamptz '2000-01-01 00:00:00+00' - interval '1 microsecond', 1, {}, NULL)::payment_idem.transactions), 'hex')",
                Uuid::from_bytes(line.tenant),
                Uuid::from_bytes(line.order_id),
                quoted(event_id.map(str::to_owned)),
                quoted(utr.map(str::to_owned)),
                quoted(prev_hash.map(|hash| format!("\\x{}", hex::encode(hash)))),
            );
            assert_eq!(one(&sql), hex::encode(line.hash()));
        }
    }
}
