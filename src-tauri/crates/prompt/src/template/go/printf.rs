//! The format text of `printf`.
//!
//! Spec: <https://pkg.go.dev/fmt#hdr-Printing>.

use super::super::Error;
use super::budget::Budget;
use super::format::{format, size};
use super::number::Spec;
use super::values::Value;

/// Maximum width and precision of an operand, as in Go. A number in the format may have one more digit.
const MAX_WIDTH: usize = 1_000_000;
/// Maximum output of a verb per input byte: `\U0001F999` for a character, `0xff ` for a byte.
const VERB_GROWTH: u64 = 10;

/// State of one call.
struct Call<'f, 'a> {
    /// The rest of the format.
    rest: &'f [u8],
    operands: &'f [Value<'a>],
    /// Index of the next operand.
    next: usize,
    /// Whether an operand was selected by its index, so that unused ones are no error.
    is_reordered: bool,
    /// Whether the index of the current verb is valid.
    is_valid: bool,
    /// Whether an index was read that nothing used yet.
    is_indexed: bool,
}

/// Returns the formatted text.
pub(super) fn printf(format_text: &[u8], operands: &[Value<'_>], budget: &Budget) -> Result<Vec<u8>, Error> {
    let mut call =
        Call { rest: format_text, operands, next: 0, is_reordered: false, is_valid: true, is_indexed: false };
    budget.text(format_text.len() as u64)?;
    let mut out = Vec::new();
    while let Some(at) = call.rest.iter().position(|byte| *byte == b'%') {
        let (text, after) = call.rest.split_at(at);
        out.extend(text);
        call.rest = after.get(1..).unwrap_or_default();
        call.verb(&mut out, budget)?;
        budget.text(out.len() as u64 / 64)?;
    }
    out.extend(call.rest);
    let extra = call.operands.get(call.next..).unwrap_or_default();
    if !call.is_reordered && !extra.is_empty() {
        budget.text(extra.iter().map(|value| 32 + size(value)).sum())?;
        out.extend(b"%!(EXTRA ");
        for (index, value) in extra.iter().enumerate() {
            if index > 0 {
                out.extend(b", ");
            }
            if !matches!(value, Value::None | Value::Nil) {
                out.extend(value.type_name().bytes());
                out.push(b'=');
            }
            format(&mut out, value, 'v', &Spec::default());
        }
        out.push(b')');
    }
    Ok(out)
}

impl<'a> Call<'_, 'a> {
    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn skip(&mut self, count: usize) {
        self.rest = self.rest.get(count..).unwrap_or_default();
    }

    /// Formats one verb; the `%` is consumed.
    fn verb(&mut self, out: &mut Vec<u8>, budget: &Budget) -> Result<(), Error> {
        let mut spec = self.flags();
        self.is_valid = true;
        self.is_indexed = false;
        self.index();
        if self.peek() == Some(b'*') {
            self.skip(1);
            match self.number_operand() {
                Some(width) => {
                    if width < 0 {
                        spec.is_left = true;
                        spec.has_zeros = false;
                    }
                    spec.width = usize::try_from(width.unsigned_abs()).ok();
                }
                None => out.extend(b"%!(BADWIDTH)"),
            }
            self.is_indexed = false;
        } else {
            spec.width = self.digits();
            if self.is_indexed && spec.width.is_some() {
                self.is_valid = false;
            }
        }
        if self.peek() == Some(b'.') {
            self.skip(1);
            if self.is_indexed {
                self.is_valid = false;
            }
            self.index();
            if self.peek() == Some(b'*') {
                self.skip(1);
                match self.number_operand() {
                    Some(precision) if precision >= 0 => spec.precision = usize::try_from(precision).ok(),
                    _ => out.extend(b"%!(BADPREC)"),
                }
                self.is_indexed = false;
            } else {
                spec.precision = Some(self.digits().unwrap_or(0));
            }
        }
        if !self.is_indexed {
            self.index();
        }
        let Some((verb, length)) = self.letter() else {
            out.extend(b"%!(NOVERB)");
            return Ok(());
        };
        self.skip(length);
        let problem = match verb {
            '%' => {
                out.push(b'%');
                return Ok(());
            }
            _ if !self.is_valid => "BADINDEX",
            _ => "MISSING",
        };
        let operand = self.operands.get(self.next).filter(|_| self.is_valid);
        let Some(operand) = operand else {
            out.extend(format!("%!{verb}({problem})").bytes());
            return Ok(());
        };
        self.next += 1;
        if verb == 'v' {
            spec.is_go_syntax = std::mem::take(&mut spec.is_alternate);
            spec.has_names = std::mem::take(&mut spec.has_sign);
        }
        let padding = spec.width.unwrap_or(0).max(spec.precision.unwrap_or(0)) as u64;
        budget.text(size(operand).saturating_mul(VERB_GROWTH).saturating_add(padding))?;
        format(out, operand, verb, &spec);
        Ok(())
    }

    fn flags(&mut self) -> Spec {
        let mut spec = Spec::default();
        while let Some(flag) = self.peek() {
            match flag {
                b'#' => spec.is_alternate = true,
                b'0' => spec.has_zeros = !spec.is_left,
                b'+' => spec.has_sign = true,
                b'-' => {
                    spec.is_left = true;
                    spec.has_zeros = false;
                }
                b' ' => spec.has_space = true,
                _ => break,
            }
            self.skip(1);
        }
        spec
    }

    /// Reads decimal digits. A number that is too large consumes the rest of the format.
    fn digits(&mut self) -> Option<usize> {
        let mut number = None;
        while let Some(digit) = self.peek().filter(u8::is_ascii_digit) {
            let before = number.unwrap_or(0);
            if before > MAX_WIDTH {
                self.rest = &[];
                return None;
            }
            number = Some(before * 10 + usize::from(digit - b'0'));
            self.skip(1);
        }
        number
    }

    /// Reads `[N]`, which selects the next operand.
    fn index(&mut self) {
        if self.peek() != Some(b'[') {
            return;
        }
        self.is_reordered = true;
        let Some(end) = self.rest.iter().position(|byte| *byte == b']') else {
            self.is_valid = false;
            self.skip(1);
            return;
        };
        let digits = self.rest.get(1..end).and_then(|digits| str::from_utf8(digits).ok());
        let index = digits.and_then(|digits| digits.parse::<usize>().ok()).and_then(|index| index.checked_sub(1));
        match index.filter(|index| *index < self.operands.len()) {
            Some(index) => {
                self.next = index;
                self.is_indexed = true;
            }
            None => self.is_valid = false,
        }
        self.skip(end + 1);
    }

    /// Takes the operand of `*`. A value that is not a number is consumed too.
    fn number_operand(&mut self) -> Option<i64> {
        let value = self.operands.get(self.next)?;
        self.next += 1;
        let number = match value {
            Value::Int(number) => *number,
            Value::Byte(number) => i64::from(*number),
            _ => return None,
        };
        usize::try_from(number.unsigned_abs()).ok().filter(|size| *size <= MAX_WIDTH).map(|_| number)
    }

    /// Returns the next character and its length. A byte that is not UTF-8 counts as U+FFFD.
    fn letter(&self) -> Option<(char, usize)> {
        let chunk = self.rest.utf8_chunks().next()?;
        let letter = chunk.valid().chars().next();
        Some(letter.map_or((char::REPLACEMENT_CHARACTER, 1), |letter| (letter, letter.len_utf8())))
    }
}
