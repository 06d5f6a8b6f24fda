-- Evidence and personal data, apart from the operational tables: own privileges, own retention.

CREATE TABLE payment_idem.payloads (
    tenant          uuid        NOT NULL,
    receipt         bigint,
    order_id        uuid,
    received_at     payment_idem.finite_time NOT NULL,
    raw_payload     bytea,
    payer_vpa       text        COLLATE "C",
    customer_mobile text        COLLATE "C"
) PARTITION BY RANGE (received_at);
-- No statistics of what is evidence: they would outlive it, and they print.
ALTER TABLE payment_idem.payloads ALTER COLUMN raw_payload SET STATISTICS 0, ALTER COLUMN payer_vpa SET STATISTICS 0,
    ALTER COLUMN customer_mobile SET STATISTICS 0;
COMMENT ON TABLE payment_idem.payloads IS
    'Raw bytes and personal data, in monthly partitions that may be dropped without touching any proof.';
COMMENT ON COLUMN payment_idem.payloads.tenant IS 'The tenant.';
COMMENT ON COLUMN payment_idem.payloads.receipt IS 'The event whose body it is; NULL for what create_order was told.';
COMMENT ON COLUMN payment_idem.payloads.order_id IS 'The order, where it was known.';
COMMENT ON COLUMN payment_idem.payloads.received_at IS 'When it came; decides its partition (UTC months).';
COMMENT ON COLUMN payment_idem.payloads.raw_payload IS 'The exact bytes of the first delivery.';
COMMENT ON COLUMN payment_idem.payloads.payer_vpa IS 'The payer''s handle (UPI VPA or the like) in the event.';
COMMENT ON COLUMN payment_idem.payloads.customer_mobile IS 'The customer''s mobile, as create_order was told.';
