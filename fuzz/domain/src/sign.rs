//! Signs a delivery by its definition, apart from the code under test, where that is simple: HMAC
//! over texts without filters and field lists, the signature in a header; and credentials.

use base64ct::{Base64, Base64Url, Encoding as _};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha1::{Digest, Sha1};
use sha2::{Sha256, Sha384, Sha512};

/// What a gateway would send along with a body.
#[derive(Default)]
pub struct Signed {
    /// The secret's text.
    pub secret: String,
    /// The signature's text; also in `headers`.
    pub signature: String,
    pub headers: Vec<(String, String)>,
    pub parameters: Vec<(String, String)>,
}

/// Signs `body` at `now`, with a secret made of `material`; `None` where it is not simple.
pub fn sign(definition: &Value, material: &str, now: i64, body: &[u8]) -> Option<Signed> {
    let verify = &definition["verify"];
    let mut signed = Signed::default();
    let key = signed.key(verify, material)?;
    let at = verify["signature"]["from"][0].as_str()?.strip_prefix("header:")?.to_owned();
    if matches!(verify["method"].as_str()?, "token" | "basic") {
        signed.signature = match verify["method"].as_str()? {
            "token" => signed.secret.clone(),
            _ => format!("Basic {}", Base64::encode_string(&key)),
        };
        let is_plain = matches!(&verify["signature"]["format"], Value::Null);
        signed.headers.push((at, signed.signature.clone()));
        return is_plain.then_some(signed);
    }
    let unit = verify["timestamp"]["unit"].as_str();
    let timestamp = match unit {
        Some("ms") => now.checked_mul(1000)?.to_string(),
        _ => now.to_string(),
    };
    let from = verify["timestamp"]["from"][0].as_str();
    if let Some(name) = from.and_then(|from| from.strip_prefix("header:")) {
        signed.headers.push((name.to_owned(), timestamp.clone()));
    }
    let text = signed.text(verify, &timestamp, body)?;
    let mac = match verify["method"].as_str()? {
        "hmac-sha1" => mac::<Hmac<Sha1>>(&key, &text),
        "hmac-sha256" => mac::<Hmac<Sha256>>(&key, &text),
        "hmac-sha384" => mac::<Hmac<Sha384>>(&key, &text),
        "hmac-sha512" => mac::<Hmac<Sha512>>(&key, &text),
        _ => return None,
    };
    let mac = match verify["signature"]["encoding"].as_str()? {
        "hex" | "hex-lower" => hex::encode(mac),
        "base64" => Base64::encode_string(&mac),
        "base64url" => Base64Url::encode_string(&mac),
        _ => return None,
    };
    let format = &verify["signature"]["format"];
    let pairs = &format["pairs"];
    signed.signature = if let Some(key) = pairs["key"].as_str() {
        let separator = pairs["separator"].as_str().unwrap_or(",");
        let assign = pairs["assign"].as_str().unwrap_or("=");
        match from.and_then(|from| from.strip_prefix("pair:")) {
            Some(name) => format!("{name}{assign}{timestamp}{separator}{key}{assign}{mac}"),
            None => format!("{key}{assign}{mac}"),
        }
    } else {
        let prefix = format["list"]["prefix"].as_str().or(format["bare"]["prefix"].as_str());
        format!("{}{mac}", prefix.unwrap_or_default())
    };
    signed.headers.push((at, signed.signature.clone()));
    Some(signed)
}

impl Signed {
    /// Sets the secret's text and gives the key.
    fn key(&mut self, verify: &Value, material: &str) -> Option<Vec<u8>> {
        let (encoding, prefix) = match &verify["key"] {
            Value::Null => ("utf8", ""),
            Value::String(encoding) => (encoding.as_str(), ""),
            key => (key["encoding"].as_str()?, key["prefix"].as_str().unwrap_or_default()),
        };
        let material = format!("a key:{material}"); // long enough, not blank, and with a colon
        let written = match encoding {
            "utf8" | "sha1-of-utf8" => material.clone(),
            "base64" => Base64::encode_string(material.as_bytes()),
            "hex" => hex::encode(&material),
            _ => return None,
        };
        self.secret = format!("{prefix}{written}");
        Some(match encoding {
            "sha1-of-utf8" => Sha1::digest(&material).to_vec(),
            _ => material.into_bytes(),
        })
    }

    /// The signed text; headers and parameters in it get a value.
    fn text(&mut self, verify: &Value, timestamp: &str, body: &[u8]) -> Option<Vec<u8>> {
        let parts = match &verify["signed_text"] {
            Value::Array(parts) => parts.as_slice(),
            text => std::slice::from_ref(text),
        };
        let mut text = Vec::new();
        for part in parts {
            let (template, always) = match part {
                Value::String(template) => (template.as_str(), true),
                part => (part["if_present"].as_str()?, false),
            };
            let (filled, is_whole) = self.fill(template, verify, timestamp, body)?;
            if always || is_whole {
                text.extend(filled);
            }
        }
        Some(text)
    }

    /// The filled template, and whether all of its places have a text.
    fn fill(
        &mut self,
        template: &str,
        verify: &Value,
        timestamp: &str,
        body: &[u8],
    ) -> Option<(Vec<u8>, bool)> {
        let (mut text, mut is_whole, mut rest) = (Vec::new(), true, template);
        while let Some((literal, behind)) = rest.split_once('{') {
            text.extend_from_slice(literal.as_bytes());
            let (name, behind) = behind.split_once('}')?;
            rest = behind;
            match name {
                "body" => text.extend_from_slice(body),
                "timestamp" => text.extend_from_slice(timestamp.as_bytes()),
                "id" => {
                    let name = verify["id"][0].as_str()?.strip_prefix("header:")?;
                    self.headers.push((name.to_owned(), "msg_1".to_owned()));
                    text.extend_from_slice(b"msg_1");
                }
                _ if name.contains(['|', '{']) => return None,
                _ if name.starts_with('/') => {
                    let json: Value = serde_json::from_slice(body).ok()?;
                    match json.pointer(name) {
                        Some(Value::String(value)) if !value.is_empty() => text.extend(value.as_bytes()),
                        None | Some(Value::Null | Value::String(_)) => is_whole = false,
                        Some(Value::Bool(value)) => text.extend(value.to_string().as_bytes()),
                        Some(_) => return None, // of a number only its own digits would do
                    }
                }
                _ => {
                    let (of, name) = name.split_once(':')?;
                    let list = match of {
                        "header" => &mut self.headers,
                        "parameter" => &mut self.parameters,
                        _ => return None,
                    };
                    list.push((name.to_owned(), "a value".to_owned()));
                    text.extend_from_slice(b"a value");
                }
            }
        }
        text.extend_from_slice(rest.as_bytes());
        Some((text, is_whole))
    }
}

fn mac<M: Mac + KeyInit>(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(text);
    mac.finalize().into_bytes().to_vec()
}
