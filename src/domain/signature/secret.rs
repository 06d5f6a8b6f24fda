//! Secrets: what a delivery is verified with, prepared once.

use std::borrow::Cow;
use std::fmt;

use aes::Aes128;
use base64ct::{Base64Unpadded, Encoding as _};
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt as _, KeyIvInit as _};
use ed25519_dalek::{Signature as Ed25519Signature, VerifyingKey as Ed25519Key};
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use rsa::PublicKey as RsaPublicKey;
use rsa::pkcs1v15::{Signature as RsaSignature, VerifyingKey as RsaKey};
use rsa::pkcs8::DecodePublicKey as _;
use rsa::signature::DigestVerifier;
use serde::Deserialize;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha384, Sha512};
use subtle::ConstantTimeEq as _;

use super::template::{Piece, filtered};

/// Shortest shared secret in bytes. Gateways give out 20 and more; less is a placeholder or a
/// mistake, and guessable either way.
pub const MIN_SECRET_BYTES: usize = 6;

/// Smallest RSA key in bits that is accepted (NIST SP 800-131A).
const MIN_RSA_BITS: u32 = 2048;

/// How a signature is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// HMAC (RFC 2104) with one of these hashes.
    Hmac(Hash),
    /// A plain hash of a text that holds the secret.
    Hash(Hash),
    /// RSA PKCS#1 v1.5 (RFC 8017) with one of the SHA-2 hashes.
    Rsa(Hash),
    /// Ed25519 (RFC 8032).
    Ed25519,
    /// The signature is the secret.
    Token,
    /// The signature is the secret as HTTP Basic credentials (RFC 7617).
    Basic,
    /// AES-128-CBC over the hexadecimal SHA-256 of text, `|` and a salt, and the salt.
    AesSaltedSha256 {
        /// The fixed first vector.
        iv: [u8; 16],
    },
}

/// A hash function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hash {
    Md5,
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

/// How the key is made from the text of a secret.
#[derive(Debug, Clone)]
pub(crate) struct KeyEncoding {
    /// Dropped where the text begins with it.
    pub(crate) prefix: Option<Box<str>>,
    pub(crate) form: KeyForm,
}

/// How a key is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum KeyForm {
    /// The secret's text is the key.
    Utf8,
    /// Base64, padded or not.
    Base64,
    /// Hexadecimal digits.
    Hex,
    /// The SHA-1 of the text is the key.
    #[serde(rename = "sha1-of-utf8")]
    Sha1OfUtf8,
    /// A public key in PEM (RFC 7468).
    Pem,
}

/// Why a text is not accepted as a secret. The text itself is never repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretFault {
    /// Empty, or nothing but white space.
    Blank,
    /// Fewer than [`MIN_SECRET_BYTES`] bytes.
    TooShort,
    /// Not written in the encoding of the definition.
    Encoding(&'static str),
    /// Not a public key of the definition's method, or too small a one.
    NotAPublicKey,
    /// A key of another length than the method takes.
    Length {
        /// Bytes that it takes.
        bytes: usize,
    },
    /// HTTP Basic credentials without a colon.
    NoColon,
}

impl fmt::Display for SecretFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blank => f.write_str("the secret is empty or blank"),
            Self::TooShort => f.write_str("the secret is shorter than 6 bytes"),
            Self::Encoding(name) => write!(f, "the secret is not {name}, as this gateway's secrets are"),
            Self::NotAPublicKey => f.write_str(
                "the secret is not the gateway's public key (PEM, \"BEGIN PUBLIC KEY\", RSA of 2048 bits or more)",
            ),
            Self::Length { bytes } => write!(f, "the secret is not a key of {bytes} bytes"),
            Self::NoColon => f.write_str("the secret is not \"user:password\""),
        }
    }
}

impl std::error::Error for SecretFault {}

/// A secret, kept only as what a check needs: for a MAC the state keyed with it, so that a check
/// costs no key schedule.
#[derive(Clone)]
pub struct Secret(Prepared);

#[derive(Clone)]
enum Prepared {
    HmacMd5(Hmac<Md5>),
    HmacSha1(Hmac<Sha1>),
    HmacSha256(Hmac<Sha256>),
    HmacSha384(Hmac<Sha384>),
    HmacSha512(Hmac<Sha512>),
    Text(Box<[u8]>),
    Aes([u8; 16]),
    RsaSha256(Box<RsaKey<Sha256>>),
    RsaSha384(Box<RsaKey<Sha384>>),
    RsaSha512(Box<RsaKey<Sha512>>),
    Ed25519(Box<Ed25519Key>),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Method {
    /// Whether the secret is a public key, which may be shown to anybody.
    pub(crate) fn is_asymmetric(self) -> bool {
        matches!(self, Self::Rsa(_) | Self::Ed25519)
    }

    /// Whether the text is hashed once, however many candidates there are.
    pub(crate) fn hashes_once(self) -> bool {
        matches!(self, Self::Hmac(_) | Self::Hash(_) | Self::Token | Self::Basic)
    }

    /// Bytes of a signature, where they are always as many.
    pub(crate) fn signature_length(self) -> Option<usize> {
        match self {
            Self::Hmac(hash) | Self::Hash(hash) => Some(match hash {
                Hash::Md5 => 16,
                Hash::Sha1 => 20,
                Hash::Sha256 => 32,
                Hash::Sha384 => 48,
                Hash::Sha512 => 64,
            }),
            Self::Ed25519 => Some(64),
            Self::Rsa(_) | Self::Token | Self::Basic | Self::AesSaltedSha256 { .. } => None,
        }
    }

    /// Whether the signature is a fixed text, which says nothing of the delivery.
    pub(crate) fn is_credential(self) -> bool {
        matches!(self, Self::Token | Self::Basic)
    }
}

impl Secret {
    /// Prepares the secret `text`. Nothing is trimmed: a line feed at the end is part of the key.
    ///
    /// # Errors
    /// [`SecretFault`], so that nothing can be authenticated with a key that anybody knows.
    pub(crate) fn prepare(method: Method, encoding: &KeyEncoding, text: &str) -> Result<Self, SecretFault> {
        if text.trim().is_empty() {
            return Err(SecretFault::Blank);
        }
        let stripped =
            encoding.prefix.as_deref().and_then(|prefix| text.strip_prefix(prefix)).unwrap_or(text);
        let key: Cow<'_, [u8]> = match encoding.form {
            KeyForm::Utf8 | KeyForm::Pem => Cow::Borrowed(stripped.as_bytes()),
            KeyForm::Base64 => Cow::Owned(
                Base64Unpadded::decode_vec(stripped.trim_end_matches('='))
                    .map_err(|_| SecretFault::Encoding("base64"))?,
            ),
            KeyForm::Hex => {
                Cow::Owned(hex::decode(stripped).map_err(|_| SecretFault::Encoding("hexadecimal"))?)
            }
            KeyForm::Sha1OfUtf8 => Cow::Owned(Sha1::digest(stripped).to_vec()),
        };
        let is_hashed = matches!(encoding.form, KeyForm::Sha1OfUtf8);
        let long_enough = if is_hashed { stripped.as_bytes() } else { &key };
        if long_enough.len() < MIN_SECRET_BYTES {
            return Err(if long_enough.is_empty() { SecretFault::Blank } else { SecretFault::TooShort });
        }
        Ok(Self(match method {
            Method::Hmac(Hash::Md5) => Prepared::HmacMd5(keyed(&key)?),
            Method::Hmac(Hash::Sha1) => Prepared::HmacSha1(keyed(&key)?),
            Method::Hmac(Hash::Sha256) => Prepared::HmacSha256(keyed(&key)?),
            Method::Hmac(Hash::Sha384) => Prepared::HmacSha384(keyed(&key)?),
            Method::Hmac(Hash::Sha512) => Prepared::HmacSha512(keyed(&key)?),
            Method::Hash(_) | Method::Token => Prepared::Text(key.into()),
            Method::Basic if !key.contains(&b':') => return Err(SecretFault::NoColon),
            Method::Basic => Prepared::Text(key.into()),
            Method::AesSaltedSha256 { .. } => {
                Prepared::Aes(key.as_ref().try_into().map_err(|_| SecretFault::Length { bytes: 16 })?)
            }
            Method::Rsa(Hash::Sha384) => Prepared::RsaSha384(Box::new(RsaKey::new(rsa_key(stripped)?))),
            Method::Rsa(Hash::Sha512) => Prepared::RsaSha512(Box::new(RsaKey::new(rsa_key(stripped)?))),
            Method::Rsa(_) => Prepared::RsaSha256(Box::new(RsaKey::new(rsa_key(stripped)?))),
            Method::Ed25519 => Prepared::Ed25519(Box::new(ed25519_key(encoding.form, stripped, &key)?)),
        }))
    }

    /// Whether one of `candidates` is the signature of the text. Every candidate is compared, in
    /// constant time.
    pub(crate) fn signed(&self, method: Method, pieces: &[Piece<'_>], candidates: &[Vec<u8>]) -> bool {
        match &self.0 {
            Prepared::HmacMd5(keyed) => any_equal(&mac(keyed, pieces), candidates),
            Prepared::HmacSha1(keyed) => any_equal(&mac(keyed, pieces), candidates),
            Prepared::HmacSha256(keyed) => any_equal(&mac(keyed, pieces), candidates),
            Prepared::HmacSha384(keyed) => any_equal(&mac(keyed, pieces), candidates),
            Prepared::HmacSha512(keyed) => any_equal(&mac(keyed, pieces), candidates),
            Prepared::Text(secret) => match method {
                Method::Hash(Hash::Md5) => any_equal(&hash::<Md5>(pieces, secret), candidates),
                Method::Hash(Hash::Sha1) => any_equal(&hash::<Sha1>(pieces, secret), candidates),
                Method::Hash(Hash::Sha256) => any_equal(&hash::<Sha256>(pieces, secret), candidates),
                Method::Hash(Hash::Sha384) => any_equal(&hash::<Sha384>(pieces, secret), candidates),
                Method::Hash(Hash::Sha512) => any_equal(&hash::<Sha512>(pieces, secret), candidates),
                // By digest, so that not even the length of the secret shows in the time.
                _ => {
                    let digests = candidates.iter().map(Sha256::digest);
                    let expected = Sha256::digest(secret);
                    digests.fold(false, |equal, digest| equal | bool::from(digest.ct_eq(&expected)))
                }
            },
            Prepared::Aes(key) => candidates
                .iter()
                .fold(false, |matched, sealed| matched | sealed_hash_matches(method, key, pieces, sealed)),
            Prepared::RsaSha256(key) => any_rsa(&**key, pieces, candidates),
            Prepared::RsaSha384(key) => any_rsa(&**key, pieces, candidates),
            Prepared::RsaSha512(key) => any_rsa(&**key, pieces, candidates),
            Prepared::Ed25519(key) => {
                let mut text = Vec::new();
                each_part(pieces, b"", |part| text.extend_from_slice(part));
                candidates.iter().any(|candidate| {
                    Ed25519Signature::from_slice(candidate)
                        .is_ok_and(|signature| key.verify_strict(&text, &signature).is_ok())
                })
            }
        }
    }
}

/// Hands the bytes of the signed text to `sink`, in order.
pub(super) fn each_part(pieces: &[Piece<'_>], secret: &[u8], mut sink: impl FnMut(&[u8])) {
    for piece in pieces {
        match piece {
            Piece::Bytes(bytes) => sink(bytes),
            Piece::Secret(filters) => sink(&filtered(filters, Cow::Borrowed(secret))),
        }
    }
}

fn keyed<M: KeyInit>(key: &[u8]) -> Result<M, SecretFault> {
    M::new_from_slice(key).map_err(|_| SecretFault::TooShort) // HMAC takes keys of any length
}

fn mac<M: Mac + Clone>(keyed: &M, pieces: &[Piece<'_>]) -> hmac::digest::Output<M> {
    let mut mac = keyed.clone();
    each_part(pieces, b"", |part| mac.update(part));
    mac.finalize().into_bytes()
}

fn hash<D: Digest>(pieces: &[Piece<'_>], secret: &[u8]) -> hmac::digest::Output<D> {
    let mut digest = D::new();
    each_part(pieces, secret, |part| digest.update(part));
    digest.finalize()
}

fn any_equal(expected: &[u8], candidates: &[Vec<u8>]) -> bool {
    let equal = candidates.iter().map(|candidate| bool::from(expected.ct_eq(candidate)));
    equal.fold(false, |any, equal| any | equal) // no short circuit
}

fn any_rsa<D: Digest + hmac::digest::Update>(
    key: &impl DigestVerifier<D, RsaSignature>,
    pieces: &[Piece<'_>],
    candidates: &[Vec<u8>],
) -> bool {
    let feed = |digest: &mut D| {
        each_part(pieces, b"", |part| Digest::update(digest, part));
        Ok(())
    };
    candidates.iter().any(|candidate| {
        RsaSignature::try_from(candidate.as_slice())
            .is_ok_and(|signature| key.verify_digest(feed, &signature).is_ok())
    })
}

fn sealed_hash_matches(method: Method, key: &[u8; 16], pieces: &[Piece<'_>], sealed: &[u8]) -> bool {
    const HASH: usize = 64; // hexadecimal digits; the salt follows
    let Method::AesSaltedSha256 { iv } = method else { return false };
    let opened = cbc::Decryptor::<Aes128>::new(key.into(), &iv.into()).decrypt_padded_vec::<Pkcs7>(sealed);
    let Ok(opened) = opened else { return false };
    let Some((sent, salt)) = opened.split_at_checked(HASH).filter(|(_, salt)| !salt.is_empty()) else {
        return false;
    };
    let mut digest = Sha256::new();
    each_part(pieces, b"", |part| digest.update(part));
    digest.update(b"|");
    digest.update(salt);
    hex::encode(digest.finalize()).as_bytes().ct_eq(sent).into()
}

fn rsa_key(pem: &str) -> Result<RsaPublicKey, SecretFault> {
    use rsa::pkcs1::DecodeRsaPublicKey as _;
    use rsa::traits::PublicKeyParts as _;
    RsaPublicKey::from_public_key_pem(pem.trim())
        .ok()
        .or_else(|| RsaPublicKey::from_pkcs1_pem(pem.trim()).ok())
        .filter(|key| key.n().bit_width() >= MIN_RSA_BITS)
        .ok_or(SecretFault::NotAPublicKey)
}

fn ed25519_key(form: KeyForm, text: &str, key: &[u8]) -> Result<Ed25519Key, SecretFault> {
    // The fixed beginning of an Ed25519 SubjectPublicKeyInfo (RFC 8410).
    const PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
    let from_pem = || {
        let body: String = text.lines().filter(|line| !line.starts_with("-----")).map(str::trim).collect();
        let der = Base64Unpadded::decode_vec(body.trim_end_matches('=')).ok()?;
        der.strip_prefix(&PREFIX).map(<[u8]>::to_vec)
    };
    let raw = match form {
        KeyForm::Pem => from_pem().ok_or(SecretFault::NotAPublicKey)?,
        _ => key.to_vec(),
    };
    let raw: [u8; 32] = raw.try_into().map_err(|_| SecretFault::Length { bytes: 32 })?;
    let key = Ed25519Key::from_bytes(&raw).map_err(|_| SecretFault::NotAPublicKey)?;
    if key.is_weak() { Err(SecretFault::NotAPublicKey) } else { Ok(key) }
}
