//! Formats of texts. The compiler has patterns for them, of which some accept too much; those are replaced here.

use serde_json::Value;

use super::position::Position;
use crate::error::Error;

/// A format that is enforced.
pub(super) enum Format {
    /// The compiler's pattern of this name is exact.
    BuiltIn(&'static str),
    /// This pattern, and at most so many characters.
    Pattern(String, Option<u64>),
}

/// Formats with patterns in the compiler that are exact, or narrower.
const BUILT_IN: [&str; 6] = ["duration", "email", "ipv4", "ipv6", "uri", "uuid"];

/// A day of RFC 3339, with the leap years of the Gregorian calendar.
const DATE: &str = concat!(
    "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)",
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))",
    "|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)",
);
/// A time of RFC 3339, to the nanosecond: a model could add digits without end. Leap seconds are left out: whether one is valid
/// depends on the time zone.
const TIME: &str = concat!(
    "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:[.][0-9]{1,9})?",
    "(?:[zZ]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])",
);
/// A label of a host name, RFC 1123. Labels with hyphens at the third and fourth position have more rules, RFC 5890.
const LABEL: &str = concat!(
    "(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]{0,2}[a-zA-Z0-9]",
    "|[a-zA-Z0-9][a-zA-Z0-9-](?:[a-zA-Z0-9][a-zA-Z0-9-]|-[a-zA-Z0-9])[a-zA-Z0-9-]{0,58}[a-zA-Z0-9])",
);
/// A JSON pointer, RFC 6901.
const POINTER: &str = "(?:/(?:[^~/]|~[01])*)*";
/// Characters of URIs without a meaning of their own, RFC 3986, as a part of a class.
const UNRESERVED: &str = "a-zA-Z0-9._~!$&'()*+,;=\\-";
/// Further characters of IRIs, RFC 3987, as a part of a class.
const UCS: &str = r"\x{A0}-\x{D7FF}\x{F900}-\x{FDCF}\x{FDF0}-\x{FFEF}\x{10000}-\x{1FFFD}\x{20000}-\x{2FFFD}";
/// An encoded byte of a URI.
const ENCODED: &str = "%[0-9a-fA-F]{2}";
/// A piece of the text of a URI template, RFC 6570.
const TEMPLATE_TEXT: &str = r"(?:[!#$&(-;=?-\[\]_a-z~]|%[0-9a-fA-F]{2})";
/// An expression of a URI template, without its braces.
const TEMPLATE_EXPRESSION: &str = concat!(
    "[+#./;?&]?(?:[A-Za-z0-9_]+(?:[.][A-Za-z0-9_]+)*(?::[1-9][0-9]{0,3}|[*])?)",
    "(?:,[A-Za-z0-9_]+(?:[.][A-Za-z0-9_]+)*(?::[1-9][0-9]{0,3}|[*])?)*",
);
/// Regular expressions of ECMA-262 without look-around and back references, with groups in no groups.
const REGEX: &str = concat!(
    r"\^?(?:(?:[A-Za-z0-9 _/,:;=@&%#~!.-]|\\[dDwWsSnrt.*+?()|^$/\\]|\[\^?(?:a-z|A-Z|0-9|[A-Za-z0-9_ .,:])+\]",
    r"|\((?:\?:)?(?:[A-Za-z0-9 _.-]|\\[dDwWsS.]|\[\^?(?:a-z|A-Z|0-9|_)+\]|[A-Za-z0-9.][*+?]|[|])+\))",
    r"(?:[*+?]|\{[0-9]{1,2},?\})?\??|[|])*\$?",
);
/// Maximum length of a host name.
const HOST_NAME_CHARS: u64 = 253;

/// How a format is enforced; none if it is an annotation.
///
/// # Errors
/// When its name is not a text.
pub(super) fn format(value: &Value, position: &Position) -> Result<Option<Format>, Error> {
    let name = value.as_str().ok_or_else(|| position.invalid("format", "not a text"))?;
    let pattern = |pattern: String| Some(Format::Pattern(format!("^{pattern}$"), None));
    Ok(match name {
        "date" => pattern(DATE.to_owned()),
        "time" => pattern(TIME.to_owned()),
        "date-time" => pattern(format!("{DATE}[tT]{TIME}")),
        "hostname" => Some(Format::Pattern(format!("^{LABEL}(?:[.]{LABEL})*$"), Some(HOST_NAME_CHARS))),
        "json-pointer" => pattern(POINTER.to_owned()),
        "relative-json-pointer" => pattern(format!("(?:0|[1-9][0-9]*)(?:#|{POINTER})")),
        "uri-reference" => pattern(reference(UNRESERVED)),
        "iri-reference" => pattern(reference(&format!("{UNRESERVED}{UCS}"))),
        "iri" => pattern(absolute(&format!("{UNRESERVED}{UCS}"))),
        "uri-template" => pattern(format!("(?:{TEMPLATE_TEXT}|[{{]{TEMPLATE_EXPRESSION}[}}])*")),
        "regex" => pattern(REGEX.to_owned()),
        "idn-email" => Some(Format::BuiltIn("email")),
        "idn-hostname" => Some(Format::Pattern(format!("^{LABEL}(?:[.]{LABEL})*$"), Some(HOST_NAME_CHARS))),
        _ => BUILT_IN.into_iter().find(|built_in| *built_in == name).map(Format::BuiltIn),
    })
}

/// A URI or IRI. `chars` are the characters without a meaning of their own. Addresses of IPv6 are left out.
fn absolute(chars: &str) -> String {
    let segment = format!("(?:[{chars}:@]|{ENCODED})");
    let paths = format!("/(?:{segment}+(?:/{segment}*)*)?|{segment}+(?:/{segment}*)*");
    format!("[a-zA-Z][a-zA-Z0-9+.-]*:(?:{}|{paths}|){}", with_authority(chars), after_path(chars))
}

/// A URI or IRI, or a reference relative to one.
fn reference(chars: &str) -> String {
    let segment = format!("(?:[{chars}:@]|{ENCODED})");
    // A colon in the first segment would end a scheme.
    let first = format!("(?:[{chars}@]|{ENCODED})+");
    let paths = format!("/(?:{segment}+(?:/{segment}*)*)?|{first}(?:/{segment}*)*");
    format!("(?:{}|(?:{}|{paths}|){})", absolute(chars), with_authority(chars), after_path(chars))
}

fn with_authority(chars: &str) -> String {
    let (user, host) = (format!("(?:[{chars}:]|{ENCODED})*@"), format!("(?:[{chars}]|{ENCODED})*"));
    format!("//(?:{user})?{host}(?::[0-9]*)?(?:/(?:[{chars}:@]|{ENCODED})*)*")
}

fn after_path(chars: &str) -> String {
    let part = format!("(?:[{chars}:@/?]|{ENCODED})*");
    format!("(?:[?]{part})?(?:#{part})?")
}
