//! Positions in a schema, and references to other positions.

use std::rc::Rc;

use serde_json::Value;

use super::resources::{Named, Resources, absolute, base_of, pointer};
use crate::error::{Error, MAX_QUOTED_CHARS, excerpt};

/// Where a schema is.
#[derive(Clone, Debug)]
pub(super) struct Position {
    /// JSON pointer, as a URI fragment.
    pub(super) pointer: Rc<str>,
    /// Number of schemas around it, also through references.
    pub(super) depth: usize,
    /// Whether a schema around it, which applies to the same value, depends on what was evaluated.
    pub(super) is_observed: bool,
    /// URI that references are relative to.
    base: Rc<str>,
}

impl Position {
    pub(super) fn root() -> Self {
        Self { pointer: "#".into(), depth: 0, is_observed: false, base: "".into() }
    }

    /// A schema for a part of the value.
    pub(super) fn child(&self, names: &[&str]) -> Self {
        self.in_place(names).unobserved()
    }

    /// The same position, where it does not matter what was evaluated.
    pub(super) fn unobserved(self) -> Self {
        Self { is_observed: false, ..self }
    }

    /// A schema for the same value.
    pub(super) fn in_place(&self, names: &[&str]) -> Self {
        Self { pointer: pointer(&self.pointer, names).into(), depth: self.depth + 1, ..self.clone() }
    }

    /// The same position, after the schema's own `$id`.
    pub(super) fn with_base_of(&self, schema: &Value) -> Self {
        match schema {
            Value::Object(keywords) => Self { base: base_of(keywords, &self.base).into(), ..self.clone() },
            _ => self.clone(),
        }
    }

    /// The position for an error.
    pub(super) fn quoted(&self) -> String {
        excerpt(&self.pointer, MAX_QUOTED_CHARS)
    }

    pub(super) fn unsupported(&self, keyword: &str, reason: &str) -> Error {
        let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        Error::UnsupportedKeyword { keyword: keyword.to_owned(), at: self.quoted(), reason }
    }

    pub(super) fn invalid(&self, keyword: &str, reason: &str) -> Error {
        Error::InvalidKeyword { keyword: keyword.to_owned(), at: self.quoted(), reason: reason.to_owned() }
    }

    /// Finds the target of the reference `value`.
    ///
    /// # Errors
    /// When it is not in the same document, or nothing is there.
    pub(super) fn resolve<'a>(
        &self,
        keyword: &str,
        value: &Value,
        resources: &Resources<'a>,
    ) -> Result<(&'a Value, Self), Error> {
        let reference = value.as_str().ok_or_else(|| self.invalid(keyword, "not a text"))?;
        let (uri, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let base = absolute(&self.base, uri);
        let shown = || excerpt(reference, MAX_QUOTED_CHARS);
        let other = || self.unsupported(keyword, &format!("`{}` is not in the same document", shown()));
        let missing = || self.invalid(keyword, &format!("`{}` does not exist", shown()));
        let resource = resources.resource(&base).ok_or_else(other)?;
        let fragment = percent_decoded(fragment).ok_or_else(missing)?;
        let target = match fragment.strip_prefix('/') {
            _ if fragment.is_empty() => resource.clone(),
            Some(path) => follow(resource, path).ok_or_else(missing)?,
            None => resources.anchor(&base, &fragment).ok_or_else(missing)?.clone(),
        };
        let is_dynamic = keyword == "$dynamicRef" && resources.is_dynamic(target.schema, &fragment);
        if is_dynamic || (keyword == "$recursiveRef" && resources.is_recursive) {
            return Err(self.unsupported(keyword, "its target depends on how the schema was reached"));
        }
        let Named { schema, pointer, base } = target;
        let position =
            Self { pointer: pointer.into(), depth: self.depth + 1, is_observed: self.is_observed, base: base.into() };
        Ok((schema, position))
    }
}

/// Follows a JSON pointer.
fn follow<'a>(start: &Named<'a>, path: &str) -> Option<Named<'a>> {
    let mut target = start.clone();
    for segment in path.split('/') {
        let name = segment.replace("~1", "/").replace("~0", "~");
        // The base of a schema includes its own `$id`.
        target.schema = match target.schema {
            Value::Object(object) => object.get(&name)?,
            Value::Array(array) => array.get(name.parse::<usize>().ok()?)?,
            _ => return None,
        };
        target.pointer = pointer(&target.pointer, &[&name]);
        if let Value::Object(keywords) = target.schema {
            target.base = base_of(keywords, &target.base);
        }
    }
    Some(target)
}

/// Decodes `%41` to `A`. None if the result is not UTF-8 or a digit is missing.
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                (digit(rest.next()?)? * 16 + digit(rest.next()?)?) as u8
            }
            _ => byte,
        });
    }
    String::from_utf8(bytes).ok()
}
