//! Formats of texts. The compiler has patterns for them, of which some accept too much; those are replaced here.

use serde_json::Value;

use super::place::Place;
use crate::error::Error;

/// A format that is enforced.
pub(super) enum Format {
    /// The compiler's pattern is exact.
    BuiltIn,
    /// This pattern, and at most so many characters.
    Pattern(String, Option<u64>),
}

/// Formats with patterns in the compiler that are exact, or narrower.
const BUILT_IN: [&str; 6] = ["duration", "email", "ipv4", "ipv6", "uri", "uuid"];

/// Formats of the specification that are not enforced. Others are annotations.
const UNSUPPORTED: [&str; 9] = [
    "idn-email",
    "idn-hostname",
    "iri",
    "iri-reference",
    "json-pointer",
    "regex",
    "relative-json-pointer",
    "uri-reference",
    "uri-template",
];

/// A day of RFC 3339, with the leap years of the Gregorian calendar.
const DATE: &str = concat!(
    "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)",
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))",
    "|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)",
);
/// A time of RFC 3339. Leap seconds are left out: whether one is valid depends on the time zone.
const TIME: &str = concat!(
    "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:[.][0-9]+)?",
    "(?:[zZ]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])",
);
/// A label of a host name, RFC 1123. Labels with hyphens at the third and fourth position have more rules, RFC 5890.
const LABEL: &str = concat!(
    "(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]{0,2}[a-zA-Z0-9]",
    "|[a-zA-Z0-9][a-zA-Z0-9-](?:[a-zA-Z0-9][a-zA-Z0-9-]|-[a-zA-Z0-9])[a-zA-Z0-9-]{0,58}[a-zA-Z0-9])",
);
/// Maximum length of a host name.
const HOST_NAME_CHARS: u64 = 253;

/// How a format is enforced; none if it is an annotation.
///
/// # Errors
/// When it cannot be enforced.
pub(super) fn format(value: &Value, place: &Place) -> Result<Option<Format>, Error> {
    let name = value.as_str().ok_or_else(|| place.invalid("format", "not a text"))?;
    let pattern = |pattern: String| Some(Format::Pattern(format!("^{pattern}$"), None));
    Ok(match name {
        "date" => pattern(DATE.to_owned()),
        "time" => pattern(TIME.to_owned()),
        "date-time" => pattern(format!("{DATE}[tT]{TIME}")),
        "hostname" => Some(Format::Pattern(format!("^{LABEL}(?:[.]{LABEL})*$"), Some(HOST_NAME_CHARS))),
        _ if UNSUPPORTED.contains(&name) => return Err(place.unsupported("format", &format!("`{name}`"))),
        _ => BUILT_IN.contains(&name).then_some(Format::BuiltIn),
    })
}
