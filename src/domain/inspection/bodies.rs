//! What a body may have been before something changed it on its way.

use super::Mistake;

const BODY_MISTAKES: [Mistake; 4] = [
    Mistake {
        name: "body_trimmed",
        sentence: "It matches with a line feed at the end of the body: it was lost before the body came here.",
    },
    Mistake {
        name: "body_with_newline",
        sentence: "It matches without the white space at the end of the body: that was added before the body came here.",
    },
    Mistake {
        name: "body_line_ends",
        sentence: "It matches with other line ends (CR LF for LF, or the other way round): they were changed before the body came here.",
    },
    Mistake {
        name: "body_reserialised",
        sentence: "It matches when the JSON is written anew: the body was parsed and serialised before it came here. Pass the exact bytes of the request.",
    },
];

/// The bodies that `body` may have been, each with what would have changed it.
pub(super) fn bodies(body: &[u8]) -> Vec<(Mistake, Vec<u8>)> {
    let [trimmed, with_newline, line_ends, reserialised] = BODY_MISTAKES;
    let mut bodies = vec![
        (trimmed, [body, b"\n"].concat()),
        (trimmed, [body, b"\r\n"].concat()),
        (with_newline, body.trim_ascii_end().to_vec()),
    ];
    let lf: Vec<u8> = body.iter().copied().filter(|byte| *byte != b'\r').collect();
    let crlf: Vec<u8> =
        lf.iter().flat_map(|byte| if *byte == b'\n' { vec![b'\r', b'\n'] } else { vec![*byte] }).collect();
    bodies.extend([(line_ends, lf), (line_ends, crlf)]);
    bodies.extend(respaced(body).into_iter().map(|body| (reserialised, body)));
    bodies.retain(|(_, changed)| changed != body);
    bodies
}

/// A JSON body with the white space of other serialisers, and with other escapes; what stands in
/// strings and the digits of numbers stay.
fn respaced(body: &[u8]) -> Vec<Vec<u8>> {
    let Ok(text) = std::str::from_utf8(body) else { return Vec::new() };
    if serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() {
        return Vec::new();
    }
    let compact = spaced(text, "", "");
    let spacious = spaced(text, " ", " ");
    let mut bodies = vec![compact.clone(), spacious.clone(), indented(text, 2), indented(text, 4)];
    for form in [compact, spacious] {
        bodies.push(form.replace("\\/", "/"));
        bodies.push(form.replace("\\/", "/").replace('/', "\\/"));
        bodies.push(escaped(&form));
        bodies.push(unescaped(&form));
    }
    bodies.into_iter().map(String::into_bytes).collect()
}

/// The tokens of a JSON text: strings whole, every other byte that is no white space by itself.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches([' ', '\t', '\n', '\r']);
        let end = match rest.as_bytes().first()? {
            b'"' => {
                let mut escaped = false;
                let inside = rest[1..].bytes().position(|byte| {
                    let ends = byte == b'"' && !escaped;
                    escaped = byte == b'\\' && !escaped;
                    ends
                });
                inside.map_or(rest.len(), |at| at + 2)
            }
            b'{' | b'}' | b'[' | b']' | b',' | b':' => 1,
            _ => rest.find(['{', '}', '[', ']', ',', ':', ' ', '\t', '\n', '\r']).unwrap_or(rest.len()),
        };
        let (token, behind) = rest.split_at(end);
        rest = behind;
        Some(token)
    })
}

fn spaced(text: &str, after_comma: &str, after_colon: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for token in tokens(text) {
        out.push_str(token);
        match token {
            "," => out.push_str(after_comma),
            ":" => out.push_str(after_colon),
            _ => {}
        }
    }
    out
}

fn indented(text: &str, width: usize) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let mut depth = 0_usize;
    let mut before = "";
    for token in tokens(text) {
        let newline = |out: &mut String, depth: usize| {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', depth * width));
        };
        let closes = matches!(token, "}" | "]");
        let opened = matches!(before, "{" | "[");
        if closes {
            depth = depth.saturating_sub(1);
        }
        if (opened && !closes) || before == "," || (closes && !opened) {
            newline(&mut out, depth);
        }
        out.push_str(token);
        if token == ":" {
            out.push(' ');
        }
        if matches!(token, "{" | "[") {
            depth += 1;
        }
        before = token;
    }
    out
}

/// Every character beyond ASCII as `\uXXXX`.
fn escaped(text: &str) -> String {
    let mut units = [0; 2];
    text.chars()
        .map(|character| match character.is_ascii() {
            true => character.to_string(),
            false => character.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
        })
        .collect()
}

/// Every string with as few escapes as it can have.
fn unescaped(text: &str) -> String {
    tokens(text)
        .map(|token| match serde_json::from_str::<String>(token) {
            Ok(string) => serde_json::to_string(&string).unwrap_or_else(|_| token.to_owned()),
            Err(_) => token.to_owned(),
        })
        .collect()
}
