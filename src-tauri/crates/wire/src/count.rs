//! Numbers as texts: of parameters, as in `parameter_size`, and with separators.

/// Formats a number as Ollama does: `3.2B`, `7B`, `500.50M`, `137M`, `22K`.
#[must_use]
pub fn human_count(count: u64) -> String {
    let scaled = |unit: u64, digits: usize, letter: char| {
        let value = count as f64 / unit as f64;
        if count.is_multiple_of(unit) {
            format!("{}{letter}", count / unit)
        } else {
            format!("{value:.digits$}{letter}")
        }
    };
    match count {
        1_000_000_000.. => scaled(1_000_000_000, 1, 'B'),
        1_000_000.. => scaled(1_000_000, 2, 'M'),
        1_000.. => format!("{}K", count / 1_000),
        _ => count.to_string(),
    }
}

/// Formats a number with a comma before every three digits: `12,304`.
#[must_use]
pub fn thousands(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn count_is_formatted_like_ollama() {
        let check = |count: u64, text: &str| assert_eq!(human_count(count), text, "{count}");
        check(3_212_749_888, "3.2B");
        check(7_000_000_000, "7B");
        check(500_500_000, "500.50M");
        check(137_000_000, "137M");
        check(22_900, "22K");
        check(999, "999");
    }

    #[test]
    fn separators_are_before_every_three_digits() {
        for (count, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (12_304, "12,304"), (1_234_567, "1,234,567")] {
            assert_eq!(thousands(count), text, "{count}");
        }
    }
}
