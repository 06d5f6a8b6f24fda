//! The text that a gateway signs, as a template: `{timestamp}.{body}`.

/// A signed text, taken apart once. It is fed to the MAC part by part, so the body is not copied.
#[derive(Debug)]
pub(crate) struct Template(Vec<Part>);

#[derive(Debug, PartialEq, Eq)]
enum Part {
    Literal(Box<str>),
    Timestamp,
    Body,
}

impl Template {
    /// Parses `text`. Placeholders are `{body}` and `{timestamp}`; braces have no other use.
    ///
    /// # Errors
    /// A sentence for whoever wrote the definition.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(brace) = rest.find(['{', '}']) {
            let (literal, from_brace) = rest.split_at(brace);
            if !literal.is_empty() {
                parts.push(Part::Literal(literal.into()));
            }
            let (name, behind) = from_brace
                .strip_prefix('{')
                .and_then(|inner| inner.split_once('}'))
                .ok_or("signed_text has a brace without its partner")?;
            parts.push(match name {
                "body" => Part::Body,
                "timestamp" => Part::Timestamp,
                other => return Err(format!("signed_text has no placeholder {{{other}}}")),
            });
            rest = behind;
        }
        if !rest.is_empty() {
            parts.push(Part::Literal(rest.into()));
        }

        let count = |wanted: &Part| parts.iter().filter(|part| *part == wanted).count();
        if count(&Part::Body) != 1 {
            return Err(
                "signed_text must contain {body} exactly once: what is not signed cannot be trusted".into()
            );
        }
        if count(&Part::Timestamp) > 1 {
            return Err("signed_text must not contain {timestamp} more than once".into());
        }
        Ok(Self(parts))
    }

    pub(crate) fn has_timestamp(&self) -> bool {
        self.0.contains(&Part::Timestamp)
    }

    /// Hands the signed bytes to `sink`, in order.
    pub(crate) fn feed(&self, body: &[u8], timestamp: &str, mut sink: impl FnMut(&[u8])) {
        for part in &self.0 {
            match part {
                Part::Literal(text) => sink(text.as_bytes()),
                Part::Timestamp => sink(timestamp.as_bytes()),
                Part::Body => sink(body),
            }
        }
    }
}
