-- The definitions of the gateways/ folder, as rows.

CREATE FUNCTION payment_idem.builtin_gateways() RETURNS TABLE (gateway text, definition jsonb, covers_body boolean, remarks text[])
LANGUAGE c SET search_path = pg_catalog, payment_idem, pg_temp AS 'MODULE_PATHNAME', 'builtin_gateways_wrapper';
COMMENT ON FUNCTION payment_idem.builtin_gateways() IS 'The gateway definitions that this version ships.';

INSERT INTO payment_idem.gateways (gateway, definition, covers_body, remarks, built_in)
SELECT gateway, definition, covers_body, remarks, true FROM payment_idem.builtin_gateways();
