-- Public failure reports, kind MONEY, as far as they need no refund and one gateway only.
\set t1 't.id(''money'')'
SELECT t.tenant('money') = :t1 AS t1;
-- What is left of an order: its status, what it was paid, and the exceptions about it in order of arrival.
CREATE FUNCTION pg_temp.stands(ord text) RETURNS TABLE (status payment_idem.order_status, paid bigint, lines bigint, fulfilments bigint, exceptions text)
LANGUAGE sql AS $$
    SELECT status, paid_minor, (SELECT count(*) FROM payment_idem.transactions l WHERE (l.tenant, l.order_id) = (o.tenant, o.order_id)),
           (SELECT count(*) FROM payment_idem.outbox q WHERE (q.tenant, q.order_id) = (o.tenant, o.order_id)),
           (SELECT string_agg(concat_ws(' ', kind, e.amount_minor, e.currency), ', ' ORDER BY exception_id)
            FROM payment_idem.exceptions e WHERE (e.tenant, e.order_id) = (o.tenant, o.order_id) AND resolved_at IS NULL)
    FROM payment_idem.orders o WHERE tenant = t.id('money') AND client_txn_id = ord
$$;
-- One event after the other for one order, each a payment of its own: amount and currency as raw JSON.
CREATE FUNCTION pg_temp.pay(ord text, amount text, currency text, n int DEFAULT 1) RETURNS text LANGUAGE sql AS $$
    SELECT t.say(t.id('money'), NULL, format('{"id":"%1$s_%4$s","type":"paid","order":"%1$s","amount":%2$s,"currency":%3$s,"payment":"pi_%1$s_%4$s"}',
                                             ord, amount, currency, n))
$$;

\echo B36: a currency without decimals is not multiplied
SELECT t.order(:t1, 'B36', 500, 'JPY');
SELECT amount_minor FROM payment_idem.orders WHERE tenant = :t1 AND client_txn_id = 'B36';
SELECT amount, pg_temp.pay('B36', amount, '"jpy"', n) FROM (VALUES (1, '50000'), (2, '5'), (3, '500')) AS v (n, amount);
SELECT * FROM pg_temp.stands('B36');

\echo B38: exponents follow ISO 4217, and an unknown code is never guessed
SELECT t.order(:t1, 'B38', 5, 'UGX');
SELECT amount, pg_temp.pay('B38', amount, '"ugx"', n) FROM (VALUES (1, '500'), (2, '5')) AS v (n, amount);
SELECT * FROM pg_temp.stands('B38');
SELECT t.order(:t1, 'B38_isk', 7, 'ISK'), pg_temp.pay('B38_isk', '7', '"isk"');
SELECT currency, left(t.err(format('SELECT t.order(t.id(''money''), ''B38_x'', 5, %L)', currency)), 5) AS code
FROM (VALUES ('XYZ'), ('BTC'), ('')) AS v (currency);
SELECT t.order(:t1, 'B38_usd');
SELECT currency, pg_temp.pay('B38_usd', '1000', currency, n) FROM (VALUES (1, '"xyz"'), (2, '"btc"'), (3, '""')) AS v (n, currency);
SELECT * FROM pg_temp.stands('B38_usd');

\echo B39: currency codes match by ASCII letters, and a missing one matches nothing
SELECT n, currency, t.order(:t1, 'B39_' || n, 10, 'INR'), pg_temp.pay('B39_' || n, '1000', currency) FROM (VALUES
    (1, '"inr"'), (2, '"Inr"'), (3, '" inr"'), (4, '"inr "'), (5, '"in-r"'), (6, U&'"\0131nr"'), (7, '"\u0131nr"'), (8, '"\u0049NR"'),
    (9, 'null'), (10, '""'), (11, '356'), (12, 'true'), (13, '["inr"]'), (14, U&'"\FF29NR"')) AS v (n, currency);

\echo B40: no amount goes through a binary fraction
SELECT amount, t.order(:t1, 'B40_' || amount, amount), pg_temp.pay('B40_' || amount, minor, '"usd"') FROM (VALUES
    (599.80, '59980'), (8.20, '820'), (1.15, '115'), (0.29, '29')) AS v (amount, minor);
-- The same out of the float8 column of an older table.
SELECT amount, t.order(:t1, 'B40_f' || amount, amount::numeric), pg_temp.pay('B40_f' || amount, minor, '"usd"') FROM (VALUES
    (599.80::float8, '59980'), (8.20, '820'), (1.15, '115'), (0.29, '29')) AS v (amount, minor);
SELECT left(t.err('SELECT t.order(t.id(''money''), ''B40_x'', 1.005)'), 5) AS numeric,
       left(t.err('SELECT t.order(t.id(''money''), ''B40_x'', 1.005::float8::numeric)'), 5) AS float8;

\echo B42: a payment of another amount does not pay
SELECT t.order(:t1, 'B42', 300);
SELECT amount, pg_temp.pay('B42', amount, '"usd"', n) FROM (VALUES
    (1, '1'), (2, '29999'), (3, '30001'), (4, '0'), (5, '-30000'), (6, '30000')) AS v (n, amount);
SELECT * FROM pg_temp.stands('B42');

\echo B44: the second payment of an order is kept in sight
SELECT t.order(:t1, 'B44');
SELECT pg_temp.pay('B44', '1000', '"usd"', 1) AS first, pg_temp.pay('B44', '1000', '"usd"', 2) AS second, pg_temp.pay('B44', '1000', '"usd"', 2) AS again;
-- The seed's case: a payment reference is missing, so that only the event ids differ.
SELECT t.say(:t1, 'b44_3', t.ev('paid', 'B44', pay => NULL, id => 'b44_3')) AS without_a_reference;
SELECT * FROM pg_temp.stands('B44');

\echo B45: one payment reference pays one order
SELECT t.order(:t1, 'B45_1'), t.order(:t1, 'B45_2');
SELECT t.say(:t1, 'b45_1', t.ev('paid', 'B45_1', pay => 'pi_b45', id => 'b45_1')) AS first,
       t.say(:t1, 'b45_2', t.ev('paid', 'B45_2', pay => 'pi_b45', id => 'b45_2')) AS other_order;
SELECT * FROM pg_temp.stands('B45_1');
SELECT * FROM pg_temp.stands('B45_2');
-- The order itself can still be paid, by a payment of its own.
SELECT t.say(:t1, 'b45_3', t.ev('paid', 'B45_2', pay => 'pi_b45_2', id => 'b45_3'));
-- A reference whose money waits in an exception is not free for another order either.
SELECT t.order(:t1, 'B45_3'), t.order(:t1, 'B45_4');
SELECT t.say(:t1, 'b45_4', t.ev('paid', 'B45_3', '1', pay => 'pi_b45_held', id => 'b45_4')) AS wrong_amount,
       t.say(:t1, 'b45_5', t.ev('paid', 'B45_4', pay => 'pi_b45_held', id => 'b45_5')) AS other_order;
-- A failed attempt claims nothing: its payment may yet succeed, for the order it is for.
SELECT t.order(:t1, 'B45_5'), t.order(:t1, 'B45_6');
SELECT t.say(:t1, 'b45_6', t.ev('failed', 'B45_5', pay => 'pi_b45_failed', id => 'b45_6')) AS failed,
       t.say(:t1, 'b45_7', t.ev('paid', 'B45_6', pay => 'pi_b45_failed', id => 'b45_7')) AS other_order;

\echo B52: a capture of less than was authorised does not pay
-- The row wants the captured amount on the ledger; by the design an amount that differs is an exception, which has
-- no ledger line until somebody resolves it.
SELECT t.order(:t1, 'B52', 50);
SELECT type, amount, t.say(:t1, 'b52_' || n, t.ev(type, 'B52', amount, pay => 'pi_b52_' || n, id => 'b52_' || n)) FROM (VALUES
    (1, 'authorised', '5000'), (2, 'captured', '4500'), (3, 'captured', '500')) AS v (n, type, amount);
SELECT * FROM pg_temp.stands('B52');

SELECT * FROM payment_idem.check_invariants();
