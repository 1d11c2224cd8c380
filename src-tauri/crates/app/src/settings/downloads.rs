//! Parsers for the download settings: bytes, mirrors, stall times.

use std::time::Duration;

use crate::values::go_duration;

/// Parses a number of bytes with decimal units: `20M`, `1.5G`, `500000`.
#[must_use]
pub fn bytes(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let text = text.strip_suffix("/s").unwrap_or(&text);
    let text = text.strip_suffix('b').unwrap_or(text).trim_end();
    let units = [('k', 1e3), ('m', 1e6), ('g', 1e9), ('t', 1e12)];
    let unit = units.into_iter().find_map(|(letter, unit)| text.strip_suffix(letter).map(|number| (number, unit)));
    let (number, unit) = unit.unwrap_or((text, 1.0));
    let number: f64 = number.trim_end().parse().ok()?;
    let count = number * unit;
    // Larger numbers are typos: no rate or disk is that large.
    (number.is_finite() && (0.0..1e18).contains(&count)).then_some(count as u64)
}

/// Parses pairs of host and address: `registry.ollama.ai=http://nas:11434, hf.co=https://mirror`.
pub(super) fn mirrors(text: &str) -> Option<Vec<(String, String)>> {
    let pairs = text.split([',', ';']).map(str::trim).filter(|pair| !pair.is_empty());
    let pair = |pair: &str| {
        let (host, address) = pair.split_once('=')?;
        let (host, address) = (host.trim(), address.trim());
        (!host.is_empty() && address.contains("://"))
            .then(|| (host.to_owned(), address.trim_end_matches('/').to_owned()))
    };
    pairs.map(pair).collect()
}

pub(super) fn stall(text: &str) -> Option<Duration> {
    let ns = go_duration::parse(text).ok()?;
    u64::try_from(ns).ok().filter(|ns| *ns > 0).map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_parses_decimal_units() {
        let check = |text: &str, expected: Option<u64>| assert_eq!(bytes(text), expected, "{text:?}");
        check("20M", Some(20_000_000));
        check("1.5 GB", Some(1_500_000_000));
        check("300kb/s", Some(300_000));
        check("4096", Some(4096));
        check("0", Some(0));
        for wrong in ["", "M", "-1", "many", "1e400", "nan", "5 parsecs"] {
            check(wrong, None);
        }
    }
}
