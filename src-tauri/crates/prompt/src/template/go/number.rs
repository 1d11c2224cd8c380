//! Go's formatting of numbers and characters, and the options of a verb.
//!
//! Spec: <https://pkg.go.dev/fmt#hdr-Printing>, <https://pkg.go.dev/strconv#FormatFloat>.

/// Options of a verb.
#[derive(Debug, Clone, Default)]
pub(super) struct Spec {
    pub(super) is_left: bool,
    /// `+`, except for `%+v`.
    pub(super) has_sign: bool,
    /// `#`, except for `%#v`.
    pub(super) is_alternate: bool,
    pub(super) has_space: bool,
    pub(super) has_zeros: bool,
    /// `%+v`: structures print the names of their fields.
    pub(super) has_names: bool,
    /// `%#v`.
    pub(super) is_go_syntax: bool,
    pub(super) width: Option<usize>,
    pub(super) precision: Option<usize>,
}

/// Appends a text, padded to the width.
pub(super) fn pad(out: &mut Vec<u8>, spec: &Spec, text: &[u8]) {
    let missing = match spec.width {
        Some(width) if width > 0 => width.saturating_sub(letters(text).count()),
        _ => 0,
    };
    if spec.is_left {
        out.extend(text);
        out.resize(out.len() + missing, b' ');
    } else {
        out.resize(out.len() + missing, if spec.has_zeros { b'0' } else { b' ' });
        out.extend(text);
    }
}

/// Formats an integer. Returns `None` if the verb is not for integers.
pub(super) fn integer(out: &mut Vec<u8>, number: i64, verb: char, spec: &Spec) -> Option<()> {
    let size = number.unsigned_abs();
    let mut digits = match verb {
        'v' | 'd' => size.to_string(),
        'b' => format!("{size:b}"),
        'o' | 'O' => format!("{size:o}"),
        'x' => format!("{size:x}"),
        'X' => format!("{size:X}"),
        'c' => {
            pad(out, spec, letter(number).encode_utf8(&mut [0; 4]).as_bytes());
            return Some(());
        }
        'q' => {
            let mut text = vec![b'\''];
            quote_letter(&mut text, letter(number), '\'', spec.has_sign);
            text.push(b'\'');
            pad(out, spec, &text);
            return Some(());
        }
        'U' => {
            let digits = spec.precision.unwrap_or(4).max(4);
            let mut text = format!("U+{size:0digits$X}");
            if spec.is_alternate && !needs_escape(letter(number)) {
                text += &format!(" '{}'", letter(number));
            }
            pad(out, &Spec { has_zeros: false, ..spec.clone() }, text.as_bytes());
            return Some(());
        }
        _ => return None,
    };
    let has_sign = number < 0 || spec.has_sign || spec.has_space;
    let length = match (spec.precision, spec.width) {
        (Some(0), _) if number == 0 => {
            pad(out, &Spec { has_zeros: false, ..spec.clone() }, b"");
            return Some(());
        }
        (Some(precision), _) => precision,
        (None, Some(width)) if spec.has_zeros && !spec.is_left => width.saturating_sub(usize::from(has_sign)),
        _ => 0,
    };
    if digits.len() < length {
        digits.insert_str(0, &"0".repeat(length - digits.len()));
    }
    let prefix = match verb {
        'b' if spec.is_alternate => "0b",
        'o' if spec.is_alternate && !digits.starts_with('0') => "0",
        'O' => "0o",
        'x' if spec.is_alternate => "0x",
        'X' if spec.is_alternate => "0X",
        _ => "",
    };
    let sign = match number {
        ..0 => "-",
        _ if spec.has_sign => "+",
        _ if spec.has_space => " ",
        _ => "",
    };
    pad(out, &Spec { has_zeros: false, ..spec.clone() }, format!("{sign}{prefix}{digits}").as_bytes());
    Some(())
}

fn letter(number: i64) -> char {
    u32::try_from(number).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Formats a float. Returns `None` if the verb is not for floats.
pub(super) fn float(out: &mut Vec<u8>, number: f64, verb: char, spec: &Spec) -> Option<()> {
    let size = number.abs();
    let digits = match verb {
        _ if number.is_nan() => "NaN".to_owned(),
        _ if number.is_infinite() => "Inf".to_owned(),
        'v' | 'g' => general(size, spec.precision),
        'G' => general(size, spec.precision).to_uppercase(),
        'f' | 'F' => format!("{size:.*}", spec.precision.unwrap_or(6)),
        'e' => scientific(&format!("{size:.*e}", spec.precision.unwrap_or(6))),
        'E' => scientific(&format!("{size:.*e}", spec.precision.unwrap_or(6))).to_uppercase(),
        'x' if spec.precision.is_none() => hexadecimal(size),
        'X' if spec.precision.is_none() => hexadecimal(size).to_uppercase(),
        _ => return None,
    };
    let sign = match number {
        _ if number.is_nan() && spec.has_sign => "+",
        _ if number.is_nan() => "",
        _ if number.is_sign_negative() => "-",
        _ if spec.has_sign || number.is_infinite() => "+",
        _ if spec.has_space => " ",
        _ => "",
    };
    let mut spec = spec.clone();
    spec.has_zeros &= number.is_finite();
    match spec.width {
        // The sign precedes the zeros.
        Some(width) if spec.has_zeros && !spec.is_left => {
            out.extend(sign.bytes());
            let width = Some(width.saturating_sub(sign.len()));
            pad(out, &Spec { width, ..spec }, digits.as_bytes());
        }
        _ => pad(out, &spec, format!("{sign}{digits}").as_bytes()),
    }
    Some(())
}

/// Formats with an exponent if it is large or small: `%g`. `size` is not negative.
fn general(size: f64, precision: Option<usize>) -> String {
    let exact = precision.map(|precision| precision.max(1));
    let text = match exact {
        Some(digits) => format!("{size:.*e}", digits - 1),
        None => format!("{size:e}"),
    };
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits = if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits };
    let exponent: i64 = exponent.parse().unwrap_or(0);
    let count = digits.bytes().filter(u8::is_ascii_digit).count();
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let limit = match exact.map(|exact| i64::try_from(exact).unwrap_or(i64::MAX)) {
        // A number with digits only before the point.
        Some(exact) if exact > count && count > exponent => count,
        Some(exact) => exact,
        None => 6,
    };
    if size != 0.0 && (exponent < -4 || exponent >= limit) {
        return scientific(&format!("{digits}e{exponent}"));
    }
    let places = usize::try_from(count - 1 - exponent).unwrap_or(0);
    format!("{size:.places$}")
}

/// Formats exactly in base 16, with an exponent of base 2. `size` is finite and not negative.
fn hexadecimal(size: f64) -> String {
    let bits = size.to_bits();
    let (mut fraction, biased) = (bits & ((1 << 52) - 1), i64::try_from(bits >> 52).unwrap_or(0));
    let mut exponent = biased - 1023;
    if size == 0.0 {
        return "0x0p+00".to_owned();
    }
    if biased == 0 {
        // A number without the implicit leading 1.
        let shift = fraction.leading_zeros() - 11;
        fraction = fraction << shift & ((1 << 52) - 1);
        exponent = -1022 - i64::from(shift);
    }
    let digits = format!("{fraction:013x}");
    let digits = digits.trim_end_matches('0');
    let point = if digits.is_empty() { "" } else { "." };
    format!("0x1{point}{digits}p{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.unsigned_abs())
}

/// Writes Rust's exponent as Go does: with a sign and two digits.
fn scientific(text: &str) -> String {
    let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let exponent: i64 = exponent.parse().unwrap_or(0);
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.unsigned_abs())
}

/// Appends a character of a quoted text.
pub(super) fn quote_letter(out: &mut Vec<u8>, letter: char, quote: char, is_ascii: bool) {
    let code = u32::from(letter);
    let text = match letter {
        '\\' => "\\\\".to_owned(),
        letter if letter == quote => format!("\\{letter}"),
        '\u{7}' => "\\a".to_owned(),
        '\u{8}' => "\\b".to_owned(),
        '\u{c}' => "\\f".to_owned(),
        '\n' => "\\n".to_owned(),
        '\r' => "\\r".to_owned(),
        '\t' => "\\t".to_owned(),
        '\u{b}' => "\\v".to_owned(),
        letter if !(needs_escape(letter) || is_ascii && code > 0x7e) => letter.to_string(),
        '\0'..=' ' | '\u{7f}' => format!("\\x{code:02x}"),
        _ if code < 0x1_0000 => format!("\\u{code:04x}"),
        _ => format!("\\U{code:08x}"),
    };
    out.extend(text.bytes());
}

/// Returns whether Go does not count the character as printable. A combining mark is printable.
fn needs_escape(letter: char) -> bool {
    let is_escaped = letter.escape_debug().len() > 2;
    letter != ' ' && (letter.is_control() || letter.is_whitespace() || is_escaped && !letter.is_alphanumeric())
}

/// Returns offsets and characters. A byte that is not UTF-8 has none.
pub(super) fn letters(bytes: &[u8]) -> impl Iterator<Item = (usize, Option<char>)> {
    let mut start = 0;
    bytes.utf8_chunks().flat_map(move |chunk| {
        let (valid, invalid) = (chunk.valid(), chunk.invalid());
        let at = start;
        start += valid.len() + invalid.len();
        let wrong = (0..invalid.len()).map(move |offset| (at + valid.len() + offset, None));
        valid.char_indices().map(move |(offset, letter)| (at + offset, Some(letter))).chain(wrong)
    })
}
