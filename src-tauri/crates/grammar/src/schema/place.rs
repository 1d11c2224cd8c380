//! Positions in a schema, and references to other positions.

use serde_json::Value;

use crate::error::Error;

/// Where a schema is.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// JSON pointer, as a URI fragment.
    pub(super) pointer: String,
    /// Number of schemas around it, also through references.
    pub(super) depth: usize,
    /// Whether it applies to the same value as a schema around it.
    pub(super) is_in_place: bool,
    /// The definition that applies to the same value, if there is one.
    pub(super) definition: Option<usize>,
    /// Whether `$id` of a schema around it changes what references mean.
    has_base: bool,
}

impl Place {
    pub(super) fn root() -> Self {
        Self { pointer: "#".to_owned(), depth: 0, is_in_place: false, definition: None, has_base: false }
    }

    /// A schema for a part of the value.
    pub(super) fn child(&self, names: &[&str]) -> Self {
        Self { is_in_place: false, definition: None, ..self.nested(names) }
    }

    /// The same place, for members that apply to the same value.
    pub(super) fn in_place(&self) -> Self {
        Self { is_in_place: true, ..self.clone() }
    }

    /// A member of a list: for the same value after [`Place::in_place`], else for a part of it.
    pub(super) fn member(&self, keyword: &str, index: usize) -> Self {
        let names = [keyword, &index.to_string()];
        let applies_in_place = matches!(keyword, "allOf" | "anyOf" | "oneOf");
        if applies_in_place { self.nested(&names) } else { self.child(&names) }
    }

    /// The target of a reference.
    pub(super) fn target(&self, target: &Target<'_>, number: usize) -> Self {
        Self {
            pointer: target.pointer.clone(),
            depth: self.depth + 1,
            is_in_place: self.is_in_place,
            definition: Some(number),
            has_base: target.has_base,
        }
    }

    /// The same place, after the schema's own `$id`.
    pub(super) fn with_base_of(&self, schema: &Value) -> Self {
        Self { has_base: self.has_base || (self.pointer != "#" && changes_base(schema)), ..self.clone() }
    }

    pub(super) fn unsupported(&self, keyword: &str, reason: &str) -> Error {
        let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        Error::UnsupportedKeyword { keyword: keyword.to_owned(), at: self.pointer.clone(), reason }
    }

    pub(super) fn invalid(&self, keyword: &str, reason: &str) -> Error {
        Error::InvalidKeyword { keyword: keyword.to_owned(), at: self.pointer.clone(), reason: reason.to_owned() }
    }

    fn nested(&self, names: &[&str]) -> Self {
        let mut pointer = self.pointer.clone();
        for name in names {
            pointer.push('/');
            pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
        }
        Self { pointer, depth: self.depth + 1, ..self.clone() }
    }
}

/// Whether references in this schema are relative to its own `$id`. Old drafts use fragments as names, which change nothing.
fn changes_base(schema: &Value) -> bool {
    ["$id", "id"].iter().any(|key| schema.get(key).and_then(Value::as_str).is_some_and(|id| !id.starts_with('#')))
}

/// What a reference refers to.
pub(super) struct Target<'a> {
    /// Its JSON pointer, as in [`Place`].
    pub(super) pointer: String,
    pub(super) schema: &'a Value,
    has_base: bool,
}

/// Finds the target of the reference `value` in the document `root`.
///
/// # Errors
/// When it is not a JSON pointer in the same document, or nothing is there.
pub(super) fn resolve<'a>(root: &'a Value, value: &Value, place: &Place) -> Result<Target<'a>, Error> {
    let reference = value.as_str().ok_or_else(|| place.invalid("$ref", "not a text"))?;
    let local = reference.strip_prefix('#').filter(|path| path.is_empty() || path.starts_with('/'));
    let Some(path) = local.filter(|_| !place.has_base) else {
        return Err(place.unsupported("$ref", &format!("`{reference}` is not a JSON pointer in the same document")));
    };
    let missing = || place.invalid("$ref", &format!("`{reference}` does not exist"));
    let mut target = Target { pointer: "#".to_owned(), schema: root, has_base: false };
    for segment in path.split('/').skip(1) {
        let name = percent_decoded(segment).ok_or_else(missing)?.replace("~1", "/").replace("~0", "~");
        target.schema = match target.schema {
            Value::Object(object) => object.get(&name),
            Value::Array(array) => name.parse::<usize>().ok().and_then(|index| array.get(index)),
            _ => None,
        }
        .ok_or_else(missing)?;
        target.pointer.push('/');
        target.pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
        target.has_base |= changes_base(target.schema);
    }
    Ok(target)
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
