//! What needs a running server but neither several sessions nor a client: SPI and privileges.
