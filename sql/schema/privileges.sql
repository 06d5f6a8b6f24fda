-- Nothing for PUBLIC: who may do what is granted, never assumed. Runs last, when everything exists.

REVOKE ALL ON SCHEMA payment_idem FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA payment_idem FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA payment_idem FROM PUBLIC;
REVOKE ALL ON ALL ROUTINES IN SCHEMA payment_idem FROM PUBLIC;
REVOKE USAGE ON TYPE payment_idem.order_status, payment_idem.payment_event_type, payment_idem.ingest_result FROM PUBLIC;
