-- Every outcome and reason that an event can come to, what to answer for it, and what is stored.
\set t1 't.id(''outcomes'')'
SELECT t.tenant('outcomes') = :t1 AS tenant;

-- What this file has seen is kept, and compared at its end with the table of outcomes.
CREATE TEMP TABLE seen (outcome text, reason text);
CREATE FUNCTION pg_temp.see(id text, body text, source text DEFAULT 'default')
RETURNS TABLE (outcome text, reason text, http int, event_id text, ord text, status text,
               booked boolean, excepted boolean, first text, now boolean) LANGUAGE sql AS $$
    WITH r AS MATERIALIZED (SELECT * FROM t.ing(t.id('outcomes'), id, body, source)),
         s AS (INSERT INTO seen SELECT outcome, reason FROM r)
    SELECT r.outcome, r.reason, http_status, r.event_id, o.client_txn_id, order_status::text, transaction_id IS NOT NULL,
           exception_id IS NOT NULL, first_outcome, first_received_at BETWEEN now() AND clock_timestamp()
    FROM r LEFT JOIN payment_idem.orders o ON (o.tenant, o.order_id) = (t.id('outcomes'), r.order_id)
$$;
-- The same without t.ing: signatures of our own choice.
CREATE FUNCTION pg_temp.raw(id text, body text, sig text, source text DEFAULT 'default', headers jsonb DEFAULT NULL)
RETURNS TABLE (outcome text, reason text, http int, event_id text, ord uuid, stored boolean) LANGUAGE sql AS $$
    WITH r AS MATERIALIZED (SELECT * FROM payment_idem.ingest(t.id('outcomes'), id, body, sig, source, headers)),
         s AS (INSERT INTO seen SELECT outcome, reason FROM r)
    SELECT outcome, reason, http_status, event_id, order_id, coalesce(transaction_id, exception_id) IS NOT NULL FROM r
$$;
\set secret 't.secret(''outcomes'')'

-- applied
SELECT t.order(:t1, 'O1'), t.order(:t1, 'O2'), t.order(:t1, 'O3', gateway_order_id => 'G3');
SELECT * FROM pg_temp.see('evt_1', t.ev('paid', 'O1'));
-- An event without money moves the order too, with a ledger line of 0; only completion asks for fulfilment.
SELECT * FROM pg_temp.see('evt_2', '{"id":"evt_2","type":"attempted","order":"O2"}');
SELECT * FROM pg_temp.see('evt_3', '{"id":"evt_3","type":"failed","order":"O2"}');
SELECT * FROM pg_temp.see('evt_4', '{"id":"evt_4","type":"expired","order":"O2"}');
-- Late money is not lost: an expired order is completed.
SELECT * FROM pg_temp.see('evt_5', t.ev('paid', 'O2', pay => 'pi_2', id => 'evt_5'));
SELECT client_txn_id, l.seq, l.kind, event_type, l.amount_minor, from_status, to_status, action
FROM payment_idem.transactions l JOIN payment_idem.orders o USING (tenant, order_id)
LEFT JOIN payment_idem.outbox q USING (tenant, receipt) WHERE l.tenant = :t1 ORDER BY 1, 2;
-- The id may be left to the signed body.
SELECT t.order(:t1, 'O4');
SELECT * FROM pg_temp.see(NULL, '{"id":"evt_6","type":"authorised","order":"O4"}');

-- recorded: known, and nothing to do
SELECT * FROM pg_temp.see('evt_10', '{"id":"evt_10","type":"ping"}');
SELECT * FROM pg_temp.see('evt_11', '{"id":"evt_11","type":"failed"}');
SELECT * FROM pg_temp.see('evt_12', '{"id":"evt_12","type":"invoice_sent","order":"O1"}');
SELECT * FROM pg_temp.see('evt_13', t.ev('captured', 'O1', id => 'evt_13'));
SELECT * FROM pg_temp.see('evt_14', '{"id":"evt_14","type":"attempted","order":"O4"}');
SELECT * FROM pg_temp.see('evt_15', '{"id":"evt_15","type":"failed","order":"O1","payment":"pi_0"}');
SELECT * FROM pg_temp.see('evt_16', t.ev('paid', 'O4', pay => 'pi_4', id => 'evt_16', more => '"livemode":false'));
-- Refunds and disputes have no effect of their own yet, and are kept.
SELECT * FROM pg_temp.see('evt_17', t.ev('refund', 'O1', id => 'evt_17'));
SELECT * FROM pg_temp.see('evt_18', t.ev('dispute_lost', 'O1', id => 'evt_18'));

-- exception: the order stays as it is, the money stays in sight
SELECT * FROM pg_temp.see('evt_20', t.ev('paid', 'O4', '999', pay => 'pi_20', id => 'evt_20'));
SELECT * FROM pg_temp.see('evt_21', t.ev('paid', 'O4', cur => 'eur', pay => 'pi_21', id => 'evt_21'));
SELECT * FROM pg_temp.see('evt_22', t.ev('paid', 'O4', cur => NULL, pay => 'pi_22', id => 'evt_22'));
SELECT * FROM pg_temp.see('evt_23', t.ev('paid', 'O1', pay => 'pi_23', id => 'evt_23'));
SELECT * FROM pg_temp.see('evt_24', t.ev('paid', 'O4', pay => 'pi_1', id => 'evt_24'));
SELECT * FROM pg_temp.see('evt_25', t.ev('paid', 'O4', '10.00', pay => 'pi_25', id => 'evt_25'));
SELECT * FROM pg_temp.see('evt_26', 'not JSON');
-- Money that names no order is not overlooked.
SELECT * FROM pg_temp.see('evt_27', t.ev('paid', NULL, pay => 'pi_27', id => 'evt_27'));
-- Two amounts for one payment are a contradiction, also where the right one is booked already.
SELECT * FROM pg_temp.see('evt_19', t.ev('captured', 'O1', '999', id => 'evt_19'));
-- One exception for each payment: a repeat under another event id is no news.
SELECT * FROM pg_temp.see('evt_28', t.ev('captured', 'O4', '999', pay => 'pi_20', id => 'evt_28'));
SELECT * FROM pg_temp.see('evt_29', t.ev('captured', 'O4', pay => 'pi_1', id => 'evt_29'));
SELECT kind, client_txn_id, e.amount_minor, e.currency, expected_amount_minor AS expected, expected_currency AS of,
       reference_kind, reference_value, detail
FROM payment_idem.exceptions e LEFT JOIN payment_idem.orders USING (tenant, order_id)
WHERE e.tenant = :t1 ORDER BY exception_id;
-- An unreadable body is known by its digest, so that the true event of that id is not taken for a conflict.
SELECT identity_kind, identity = 'sha256:' || encode(sha256('not JSON'), 'hex') AS by_digest, event_id
FROM payment_idem.event_receipts WHERE tenant = :t1 AND event_id = 'evt_26';
SELECT * FROM pg_temp.see('evt_26', '{"id":"evt_26","type":"ping"}');
SELECT * FROM pg_temp.see('evt_26', 'not JSON');
-- The right amount of a payment whose amount was wrong before is accepted; the contradiction stays open.
SELECT * FROM pg_temp.see('evt_30', t.ev('paid', 'O4', pay => 'pi_20', id => 'evt_30'));
SELECT kind, resolved_at IS NULL AS open FROM payment_idem.exceptions WHERE tenant = :t1 AND reference_value = 'pi_20';

-- transition_not_allowed comes with rules of the tenant's own.
SELECT t.tenant('outcomes strict') IS NOT NULL AS tenant;
INSERT INTO payment_idem.transition_rules VALUES
    (t.id('outcomes strict'), 'payment_expired', 'PENDING', 'EXPIRED'),
    (t.id('outcomes strict'), 'payment_succeeded', 'PENDING', 'COMPLETED');
SELECT t.order(t.id('outcomes strict'), 'O1');
SELECT t.say(t.id('outcomes strict'), 'evt_1', '{"id":"evt_1","type":"expired","order":"O1"}');
INSERT INTO seen SELECT outcome, reason FROM t.ing(t.id('outcomes strict'), 'evt_2', t.ev('paid', 'O1', id => 'evt_2'));
SELECT t.say(t.id('outcomes strict'), 'evt_2', t.ev('paid', 'O1', id => 'evt_2'));

-- duplicate: the first reason, and the ids that the first call gave
CREATE FUNCTION pg_temp.again(id text, body text) RETURNS TABLE (says text, same_ids boolean, same_moment boolean, digest boolean)
LANGUAGE sql AS $$
    WITH r AS MATERIALIZED (SELECT * FROM t.ing(t.id('outcomes'), id, body)),
         s AS (INSERT INTO seen SELECT outcome, reason FROM r)
    SELECT t.says(r), (r.order_id, r.transaction_id, r.exception_id, r.event_id) IS NOT DISTINCT FROM
                      (k.order_id, CASE k.outcome WHEN 'applied' THEN k.receipt END,
                                   CASE k.outcome WHEN 'exception' THEN k.receipt END, k.event_id),
           r.first_received_at = k.received_at, r.payload_sha256 = encode(sha256(convert_to(body, 'UTF8')), 'hex')
    FROM r, payment_idem.event_receipts k WHERE k.tenant = t.id('outcomes') AND k.event_id = id
$$;
SELECT * FROM pg_temp.again('evt_1', t.ev('paid', 'O1'));
SELECT * FROM pg_temp.again('evt_2', '{"id":"evt_2","type":"attempted","order":"O2"}');
SELECT * FROM pg_temp.again('evt_12', '{"id":"evt_12","type":"invoice_sent","order":"O1"}');
SELECT * FROM pg_temp.again('evt_15', '{"id":"evt_15","type":"failed","order":"O1","payment":"pi_0"}');
SELECT * FROM pg_temp.again('evt_23', t.ev('paid', 'O1', pay => 'pi_23', id => 'evt_23'));
SELECT * FROM pg_temp.again('evt_25', t.ev('paid', 'O4', '10.00', pay => 'pi_25', id => 'evt_25'));

-- digest_conflict: the first digest stays, the second is noted once, nothing is applied
SELECT * FROM pg_temp.see('evt_1', t.ev('paid', 'O1', more => '"x":1'));
SELECT * FROM pg_temp.see('evt_1', t.ev('paid', 'O1', more => '"x":1'));
SELECT * FROM pg_temp.again('evt_1', t.ev('paid', 'O1'));
SELECT kind, identity, claimed_id, payload_sha256 = sha256(convert_to(t.ev('paid', 'O1', more => '"x":1'), 'UTF8')) AS these,
       first_sha256 = sha256(convert_to(t.ev('paid', 'O1'), 'UTF8')) AS first, receipt IS NOT NULL AS of_receipt
FROM payment_idem.anomalies WHERE tenant = :t1 ORDER BY anomaly_id;

-- rejected: nothing is stored, except for event_id_mismatch, which is authentic and leaves one anomaly
SELECT * FROM t.counts(:t1) \gset before_
SELECT * FROM pg_temp.raw('evt_40', '{"id":"evt_40","type":"ping"}', t.sign('{"id":"evt_40","type":"ping"}', 'another secret'));
SELECT * FROM pg_temp.raw('evt_40', '{"id":"evt_40","type":"ping"}', 'not hex');
SELECT * FROM pg_temp.raw('evt_40', '{"id":"evt_40","type":"ping"}', NULL);
SELECT * FROM pg_temp.raw('', '{"id":"evt_40","type":"ping"}', t.sign('{"id":"evt_40","type":"ping"}', :secret));
SELECT outcome, reason, http, ord, stored FROM pg_temp.raw(repeat('x', 256), '{"id":"evt_40","type":"ping"}', t.sign('{"id":"evt_40","type":"ping"}', :secret));
SELECT outcome, reason, http, ord, stored FROM pg_temp.raw(E'evt\n40', '{"id":"evt_40","type":"ping"}', 'x');
SELECT * FROM pg_temp.raw('evt_40', repeat('x', 1048577), t.sign(repeat('x', 1048577), :secret));
SELECT receipts = :before_receipts AND ledger = :before_ledger AND outbox = :before_outbox
       AND exceptions = :before_exceptions AND anomalies = :before_anomalies AS nothing_stored FROM t.counts(:t1);
SELECT * FROM pg_temp.raw('evt_41', '{"id":"evt_40","type":"ping"}', t.sign('{"id":"evt_40","type":"ping"}', :secret));
SELECT * FROM pg_temp.raw('evt_41', '{"id":"evt_40","type":"ping"}', t.sign('{"id":"evt_40","type":"ping"}', :secret));
SELECT kind, identity, claimed_id FROM payment_idem.anomalies WHERE tenant = :t1 ORDER BY anomaly_id;
SELECT receipts = :before_receipts AND anomalies = :before_anomalies + 1 AS one_anomaly FROM t.counts(:t1);
-- The longest body that is accepted is exactly as long as allowed.
SELECT * FROM pg_temp.raw('evt_42', '{"id":"evt_42","type":"ping"}' || repeat(' ', 1048576 - 29),
                          t.sign('{"id":"evt_42","type":"ping"}' || repeat(' ', 1048576 - 29), :secret));
-- no_active_secret comes before any look at the signature.
SELECT payment_idem.create_source(:t1, 'bare', 'generic');
SELECT * FROM pg_temp.raw('evt_43', '{}', NULL, 'bare');
SELECT payment_idem.retire_secret(payment_idem.add_secret(:t1, 'bare', 'a secret of the past'));
SELECT * FROM pg_temp.raw('evt_43', '{}', t.sign('{}', 'a secret of the past'), 'bare');
-- Of several faults the first in the documented order is told.
SELECT * FROM pg_temp.raw('', repeat('x', 1048577), NULL, 'bare');
SELECT * FROM pg_temp.raw('', 'x', NULL, 'bare');
-- timestamp_out_of_tolerance: of a gateway that signs the moment.
SELECT payment_idem.create_source(:t1, 'cards', 'stripe');
SELECT payment_idem.add_secret(:t1, 'cards', :secret) IS NOT NULL AS secret;
SELECT * FROM pg_temp.raw(NULL, '{"id":"evt_44","type":"charge.updated"}',
                          't=1600000000,v1=' || t.sign('1600000000.{"id":"evt_44","type":"charge.updated"}', :secret), 'cards');

-- The signature from the headers, in either header, in any case of its name, with or without its prefix.
SELECT * FROM pg_temp.raw('evt_50', '{"id":"evt_50","type":"ping"}', NULL, headers => jsonb_build_object(
    'content-type', 'application/json', 'x-SIGNATURE', t.sign('{"id":"evt_50","type":"ping"}', :secret)));
SELECT * FROM pg_temp.raw('evt_51', '{"id":"evt_51","type":"ping"}', NULL, headers => jsonb_build_object(
    'X-Hub-Signature-256', 'sha256=' || t.sign('{"id":"evt_51","type":"ping"}', :secret)));
SELECT * FROM pg_temp.raw('evt_52', '{"id":"evt_52","type":"ping"}', upper(t.sign('{"id":"evt_52","type":"ping"}', :secret)));
SELECT * FROM pg_temp.raw('evt_53', '{"id":"evt_53","type":"ping"}', NULL, headers => '{"Host": "example.org"}');

-- parked, by the order's reference: create_order applies it, in its own transaction
SELECT * FROM pg_temp.see('evt_60', t.ev('paid', 'P1', pay => 'pi_60', id => 'evt_60'));
SELECT * FROM pg_temp.see('evt_60', t.ev('paid', 'P1', pay => 'pi_60', id => 'evt_60'));
SELECT t.order(:t1, 'P1');
SELECT t.order(:t1, 'P1');
SELECT * FROM pg_temp.again('evt_60', t.ev('paid', 'P1', pay => 'pi_60', id => 'evt_60'));
-- by the gateway's order id, told at once or filled in later
SELECT * FROM pg_temp.see('evt_61', '{"id":"evt_61","type":"paid","gateway_order_id":"GP2","amount":1000,"currency":"usd","payment":"pi_61"}');
SELECT * FROM pg_temp.see('evt_62', '{"id":"evt_62","type":"paid","gateway_order_id":"GP3","amount":1000,"currency":"usd","payment":"pi_62"}');
SELECT t.order(:t1, 'P2', gateway_order_id => 'GP2'), t.order(:t1, 'P3');
SELECT t.order(:t1, 'P3', gateway_order_id => 'GP3');
-- Every event of the order, in the order of arrival; also one that moves no money, and one that is no good.
SELECT * FROM pg_temp.see('evt_63', '{"id":"evt_63","type":"failed","order":"P4"}');
SELECT * FROM pg_temp.see('evt_64', t.ev('paid', 'P4', '1', pay => 'pi_64', id => 'evt_64'));
SELECT * FROM pg_temp.see('evt_65', t.ev('paid', 'P4', pay => 'pi_65', id => 'evt_65'));
SELECT * FROM pg_temp.see('evt_66', t.ev('captured', 'P4', pay => 'pi_65', id => 'evt_66'));
SELECT t.order(:t1, 'P4');
SELECT event_id, first_outcome, first_reason, outcome, reason, processed_at IS NOT NULL AS processed
FROM payment_idem.event_receipts WHERE tenant = :t1 AND first_outcome = 'parked' ORDER BY receipt;
-- An order that does not fit what waits for it is made all the same; the money is an exception.
SELECT * FROM pg_temp.see('evt_67', t.ev('paid', 'P5', pay => 'pi_67', id => 'evt_67'));
SELECT t.order(:t1, 'P5', 11);
SELECT kind, amount_minor, expected_amount_minor FROM payment_idem.exceptions WHERE tenant = :t1 AND reference_value = 'pi_67';
-- A caller that rolls back leaves it parked.
SELECT * FROM pg_temp.see('evt_68', t.ev('paid', 'P6', pay => 'pi_68', id => 'evt_68'));
BEGIN;
SELECT t.order(:t1, 'P6');
ROLLBACK;
SELECT * FROM pg_temp.see('evt_68', t.ev('paid', 'P6', pay => 'pi_68', id => 'evt_68'));

-- Which order is meant. By the gateway's order id alone:
SELECT * FROM pg_temp.see('evt_70', '{"id":"evt_70","type":"attempted","gateway_order_id":"G3"}');
-- both, agreeing:
SELECT * FROM pg_temp.see('evt_71', '{"id":"evt_71","type":"failed","order":"O3","gateway_order_id":"G3"}');
-- both, contradicting: the other order's, one that is nobody's while the order has its own, a reference that is nobody's
SELECT t.order(:t1, 'O5');
SELECT * FROM pg_temp.see('evt_72', t.ev('paid', 'O5', pay => 'pi_72', id => 'evt_72', more => '"gateway_order_id":"G3"'));
SELECT * FROM pg_temp.see('evt_73', t.ev('paid', 'O3', pay => 'pi_73', id => 'evt_73', more => '"gateway_order_id":"G9"'));
SELECT * FROM pg_temp.see('evt_74', t.ev('paid', 'O9', pay => 'pi_74', id => 'evt_74', more => '"gateway_order_id":"G3"'));
-- an id of the gateway that nobody told us, for an order without one, contradicts nothing; the payment that was in
-- exception is booked, and the exception closed
SELECT * FROM pg_temp.see('evt_75', t.ev('paid', 'O5', pay => 'pi_72', id => 'evt_75', more => '"gateway_order_id":"G5"'));
SELECT kind, resolution, resolved_by, resolved_at IS NULL AS open FROM payment_idem.exceptions WHERE tenant = :t1 AND reference_value = 'pi_72';

-- The merchant. A source without one pays any merchant's order, if the reference names one order only ...
SELECT t.order(:t1, 'M1', merchant_id => 'm1'), t.order(:t1, 'M1', merchant_id => 'm2');
SELECT * FROM pg_temp.see('evt_80', t.ev('paid', 'M1', pay => 'pi_80', id => 'evt_80'));
-- ... or if the body names the merchant.
SELECT * FROM pg_temp.see('evt_81', t.ev('paid', 'M1', pay => 'pi_81', id => 'evt_81', more => '"merchant_id":"m2"'));
SELECT merchant_id, status FROM payment_idem.orders WHERE tenant = :t1 AND client_txn_id = 'M1' ORDER BY 1;
SELECT * FROM pg_temp.see('evt_82', t.ev('paid', 'M1', pay => 'pi_82', id => 'evt_82', more => '"merchant_id":"m3"'));
SELECT t.order(:t1, 'M1', merchant_id => 'm3');
-- A source of one merchant pays this merchant's orders only, whatever the body says.
SELECT payment_idem.create_source(:t1, 'm1', 'generic', '{"merchant_id": "m1"}');
SELECT payment_idem.add_secret(:t1, 'm1', :secret) IS NOT NULL AS secret;
SELECT t.order(:t1, 'M2', merchant_id => 'm2'), t.order(:t1, 'M3', merchant_id => 'm1');
SELECT * FROM pg_temp.see('evt_83', t.ev('paid', 'M2', pay => 'pi_83', id => 'evt_83'), 'm1');
SELECT * FROM pg_temp.see('evt_84', t.ev('paid', 'M3', pay => 'pi_84', id => 'evt_84', more => '"merchant_id":"m2"'), 'm1');
SELECT * FROM pg_temp.see('evt_85', t.ev('paid', 'M3', pay => 'pi_85', id => 'evt_85', more => '"merchant_id":"m1"'), 'm1');
-- The same, whichever comes first: a body that names another merchant never pays, also when the order comes later.
SELECT * FROM pg_temp.see('evt_86', t.ev('paid', 'M4', pay => 'pi_86', id => 'evt_86', more => '"merchant_id":"m2"'), 'm1');
SELECT t.order(:t1, 'M4', merchant_id => 'm1');
SELECT outcome, reason FROM payment_idem.event_receipts WHERE tenant = :t1 AND event_id = 'evt_86';

-- A bank's reference pays one order, also through another source; references are compared within their kind.
SELECT t.order(:t1, 'B1'), t.order(:t1, 'B2'), t.order(:t1, 'B3');
SELECT * FROM pg_temp.see('evt_90', t.ev('paid', 'B1', pay => 'pi_90', id => 'evt_90', more => '"utr":"412345678901"'));
SELECT * FROM pg_temp.see('evt_91', t.ev('paid', 'B2', pay => 'pi_91', id => 'evt_91', more => '"utr":"412345678901"'));
SELECT * FROM pg_temp.see('evt_92', t.ev('paid', 'B3', pay => 'pi_92', id => 'evt_92', more => '"utr":"412345678901"'), 'm1');
SELECT * FROM pg_temp.see('evt_93', t.ev('captured', 'B1', pay => 'pi_93', id => 'evt_93', more => '"utr":"412345678901"'));
SELECT * FROM pg_temp.see('evt_94', t.ev('paid', 'B3', pay => '412345678901', id => 'evt_94', more => '"utr":""'));
SELECT t.tenant('outcomes other') IS NOT NULL AS tenant;
SELECT t.order(t.id('outcomes other'), 'B1');
-- Another tenant's is its own ...
SELECT t.say(t.id('outcomes other'), 'evt_90', t.ev('paid', 'B1', pay => 'pi_90', id => 'evt_90', more => '"utr":"412345678901"'));
-- ... unless both run on one scope, as where one owner runs the whole database; chosen before the first bank reference.
SELECT t.tenant('outcomes wide 1') IS NOT NULL AS one, t.tenant('outcomes wide 2') IS NOT NULL AS two;
UPDATE payment_idem.tenants SET bank_reference_scope = 'database' WHERE tenant IN (t.id('outcomes wide 1'), t.id('outcomes wide 2'));
SELECT t.order(t.id('outcomes wide 1'), 'B4'), t.order(t.id('outcomes wide 2'), 'B4');
SELECT t.say(t.id('outcomes wide 1'), 'evt_95', t.ev('paid', 'B4', pay => 'pi_95', id => 'evt_95', more => '"utr":"N1"'));
SELECT t.say(t.id('outcomes wide 2'), 'evt_95', t.ev('paid', 'B4', pay => 'pi_95', id => 'evt_95', more => '"utr":"N1"'));
-- The seed's idempotency_hash: SHA-256 over the length-prefixed (client_txn_id, utr, amount).
SELECT kind, CASE kind WHEN 'idempotency_hash' THEN (value = encode(sha256(
           '\x00000002'::bytea || 'B1' || '\x0000000c' || '412345678901' || '\x00000008' || int8send(1000)), 'hex'))::text
       ELSE value END AS value, state
FROM payment_idem.payment_references r JOIN payment_idem.orders o USING (tenant, order_id)
WHERE r.tenant = :t1 AND client_txn_id = 'B1' ORDER BY kind, value;

-- Both overloads see the same bytes: one digest, one event. A bare literal is read as text, backslashes and all.
SELECT t.order(:t1, 'T1');
SELECT '{"id":"evt_100","type":"paid","order":"T1","amount":1000,"currency":"usd","payment":"pi_100","note":"\u00e9 \\x41 é"}' AS body \gset
SELECT t.says(r), payload_sha256 = encode(sha256(convert_to(:'body', 'UTF8')), 'hex') AS digest
FROM payment_idem.ingest(:t1, 'evt_100', :'body', t.sign(:'body', :secret)) r;
SELECT t.says(r), payload_sha256 = encode(sha256(convert_to(:'body', 'UTF8')), 'hex') AS digest
FROM payment_idem.ingest(:t1, 'evt_100', convert_to(:'body', 'UTF8'), t.sign(:'body', :secret)) r;
-- Read as bytea, the same literal is other bytes, or none: why there are two.
SELECT t.err(format('SELECT %L::bytea', :'body')) LIKE '22P02|%' AS not_even_bytea;

-- The evidence: exact bytes, payer, unless the source keeps none.
SELECT payment_idem.create_source(:t1, 'lean', 'generic', '{"keep_payload": false, "max_payload_bytes": 100}');
SELECT payment_idem.add_secret(:t1, 'lean', :secret) IS NOT NULL AS secret;
SELECT t.order(:t1, 'E1'), t.order(:t1, 'E2');
SELECT * FROM pg_temp.see('evt_110', t.ev('paid', 'E1', pay => 'pi_110', id => 'evt_110', more => '"payer_vpa":"name@bank"'));
SELECT * FROM pg_temp.see('evt_111', t.ev('paid', 'E2', pay => 'pi_111', id => 'evt_111'), 'lean');
SELECT * FROM pg_temp.see('evt_112', t.ev('paid', 'E2', pay => 'pi_112', id => 'evt_112', more => '"note":"longer than one hundred"'), 'lean');
SELECT r.event_id, raw_payload = convert_to(t.ev('paid', 'E1', pay => 'pi_110', id => 'evt_110', more => '"payer_vpa":"name@bank"'), 'UTF8') AS exact,
       payer_vpa FROM payment_idem.event_receipts r LEFT JOIN payment_idem.payloads USING (tenant, receipt)
WHERE r.tenant = :t1 AND r.event_id IN ('evt_110', 'evt_111') ORDER BY 1;

-- Test sources take test money; an event that does not say is taken at the source's word.
SELECT payment_idem.create_source(:t1, 'test', 'generic', '{"live_mode": false}');
SELECT payment_idem.add_secret(:t1, 'test', :secret) IS NOT NULL AS secret;
SELECT t.order(:t1, 'L1'), t.order(:t1, 'L2');
SELECT * FROM pg_temp.see('evt_120', t.ev('paid', 'L1', pay => 'pi_120', id => 'evt_120', more => '"livemode":true'), 'test');
SELECT * FROM pg_temp.see('evt_121', t.ev('paid', 'L1', pay => 'pi_121', id => 'evt_121', more => '"livemode":false'), 'test');
SELECT * FROM pg_temp.see('evt_122', t.ev('paid', 'L2', pay => 'pi_122', id => 'evt_122'), 'test');

-- A source's own statuses: for an outcome, and for one reason of it, which counts more.
SELECT payment_idem.create_source(:t1, 'own', 'generic', '{"max_payload_bytes": 200, "http_status": {
    "applied": 201, "duplicate": 208, "exception": 409, "exception/amount_mismatch": 422, "rejected": 403,
    "rejected/no_active_secret": 500, "recorded/unmapped_type": 204, "parked": 202, "digest_conflict": 410}}');
SELECT * FROM pg_temp.raw('evt_130', '{}', NULL, 'own');
SELECT payment_idem.add_secret(:t1, 'own', :secret) IS NOT NULL AS secret;
SELECT t.order(:t1, 'H1');
SELECT * FROM pg_temp.raw('evt_130', '{}', NULL, 'own');
SELECT * FROM pg_temp.raw('evt_130', repeat('x', 201), NULL, 'own');
SELECT * FROM pg_temp.see('evt_131', t.ev('paid', 'H1', '1', pay => 'pi_131', id => 'evt_131'), 'own');
SELECT * FROM pg_temp.see('evt_131', t.ev('paid', 'H1', '1', pay => 'pi_131', id => 'evt_131'), 'own');
SELECT * FROM pg_temp.see('evt_132', t.ev('paid', 'H1', cur => 'eur', pay => 'pi_132', id => 'evt_132'), 'own');
SELECT * FROM pg_temp.see('evt_133', t.ev('paid', 'H1', pay => 'pi_133', id => 'evt_133'), 'own');
SELECT * FROM pg_temp.see('evt_133', t.ev('paid', 'H1', pay => 'pi_133', id => 'evt_133', more => '"x":1'), 'own');
SELECT * FROM pg_temp.see('evt_134', '{"id":"evt_134","type":"ping"}', 'own');
SELECT * FROM pg_temp.see('evt_135', '{"id":"evt_135","type":"pong"}', 'own');
SELECT * FROM pg_temp.see('evt_136', t.ev('paid', 'H9', pay => 'pi_136', id => 'evt_136'), 'own');
-- Event ids are unique per source: the same id from another source is another event.
SELECT * FROM pg_temp.see('evt_131', '{"id":"evt_131","type":"ping"}');

-- Every outcome of the table was met here, and no other.
WITH expected (outcome, reason) AS (VALUES
    ('applied', NULL),
    ('recorded', 'informational'), ('recorded', 'unmapped_type'), ('recorded', 'same_payment'),
    ('recorded', 'already_in_state'), ('recorded', 'stale'), ('recorded', 'test_mode'),
    ('parked', 'order_not_found'),
    ('exception', 'amount_mismatch'), ('exception', 'currency_mismatch'), ('exception', 'reference_mismatch'),
    ('exception', 'second_payment'), ('exception', 'reference_reused'), ('exception', 'transition_not_allowed'),
    ('exception', 'payload_unreadable'),
    ('digest_conflict', NULL),
    ('rejected', 'signature_mismatch'), ('rejected', 'signature_malformed'), ('rejected', 'timestamp_out_of_tolerance'),
    ('rejected', 'no_active_secret'), ('rejected', 'event_id_malformed'), ('rejected', 'event_id_mismatch'), ('rejected', 'too_large')
), met AS (SELECT DISTINCT outcome, reason FROM seen WHERE outcome <> 'duplicate')
SELECT 'not met' AS fault, e.* FROM (SELECT * FROM expected EXCEPT SELECT * FROM met) e
UNION ALL SELECT 'not expected', m.* FROM (SELECT * FROM met EXCEPT SELECT * FROM expected) m;
SELECT count(*) > 5 AS duplicates_too FROM seen WHERE outcome = 'duplicate';

SELECT * FROM payment_idem.check_invariants();
