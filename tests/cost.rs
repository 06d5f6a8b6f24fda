//! What hostile deliveries cost, as multiples of what SHA-256 takes for the same bytes. Both are measured in turn and
//! the fastest run of each counts, so that neither the machine nor its load decides the result.

mod common;

use std::time::{Duration, Instant};

use aes::Aes128;
use base64ct::{Base64, Encoding as _};
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeEncrypt as _, KeyIvInit as _};
use common::{exponents, gateway, hmac_hex};
use payment_idem::domain::event::{self, Fault, Field};
use payment_idem::domain::form::MAX_FIELDS;
use payment_idem::domain::gateway::Gateway;
use payment_idem::domain::json::{JsonFault, MAX_DEPTH, MAX_KEYS};
use payment_idem::domain::place::{Parameters, Request};
use payment_idem::domain::signature::{
    AgeCheck, Delivery, Headers, MAX_HEADER_BYTES, Malformed, Verdict, digest, verify,
};

const SECRET: &str = "sixteen bytes ok";
const NOW: i64 = 1_764_590_400;
const BODY_BYTES: usize = 10 * 1024 * 1024;
const RUNS: usize = 5;
const VALID: Verdict = Verdict::Valid { timestamp: None };

/// Bounds: twice and more what an unoptimised build on a busy machine needs, and far below what anything that is not
/// linear would take.
const HMAC_AT_MOST: f64 = 4.0;
const READING_AT_MOST: f64 = 40.0;
