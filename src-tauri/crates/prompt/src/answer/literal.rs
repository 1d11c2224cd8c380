//! Literals of Python, of JSON and of Gemma's notation: one reader for all three.
//!
//! Gemma's strings are between two equal tokens, its keys have no quotes, and its models sometimes omit the quotes of
//! strings.

use serde_json::{Map, Value};

/// Maximum nesting of lists and maps; each level takes a stack frame.
const MAX_DEPTH: usize = 64;

/// Parses the value at the start of `text`. Returns it and the text after it. `quote`: the token around Gemma's strings;
/// words without quotes are strings then.
pub(super) fn first_value<'t>(text: &'t str, quote: Option<&str>) -> Option<(Value, &'t str)> {
    let mut reader = Reader { rest: text, quote };
    let value = reader.value(0)?;
    Some((value, reader.rest))
}

/// Reads literals from the start of a text.
#[derive(Debug)]
pub(super) struct Reader<'t, 'q> {
    rest: &'t str,
    quote: Option<&'q str>,
}

impl<'t> Reader<'t, '_> {
    /// Creates a reader of Python's literals.
    pub(super) fn python(text: &'t str) -> Self {
        Reader { rest: text, quote: None }
    }

    /// Returns the text that is not read.
    pub(super) fn rest(&self) -> &'t str {
        self.rest
    }

    /// Skips white space and reads `text`, if it follows.
    pub(super) fn eat(&mut self, text: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Reads the longest text without the characters in `ends`, trimmed. Returns `None` if it is empty.
    fn until(&mut self, ends: &[char]) -> Option<&'t str> {
        let (text, rest) = self.rest.split_at(self.rest.find(ends).unwrap_or(self.rest.len()));
        self.rest = rest;
        Some(text.trim()).filter(|text| !text.is_empty())
    }

    /// Reads an identifier, possibly with dots.
    pub(super) fn identifier(&mut self) -> Option<&'t str> {
        self.rest = self.rest.trim_start();
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
        let (name, rest) = self.rest.split_at(self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len()));
        self.rest = rest;
        Some(name).filter(|name| !name.is_empty())
    }

    /// Reads a value at nesting `depth`.
    pub(super) fn value(&mut self, depth: usize) -> Option<Value> {
        if depth > MAX_DEPTH {
            return None;
        }
        if self.eat("{") {
            return self.map(depth);
        }
        for (open, close) in [("[", "]"), ("(", ")")] {
            if self.eat(open) {
                return self.list(close, depth);
            }
        }
        if let Some(text) = self.string() {
            return Some(Value::String(text?));
        }
        self.word()
    }

    /// Reads the items of a list after its opening bracket.
    fn list(&mut self, close: &str, depth: usize) -> Option<Value> {
        let mut items = Vec::new();
        while !self.eat(close) {
            items.push(self.value(depth + 1)?);
            if !self.eat(",") {
                return self.eat(close).then_some(Value::Array(items));
            }
        }
        Some(Value::Array(items))
    }

    /// Reads the entries of a map after its opening bracket.
    fn map(&mut self, depth: usize) -> Option<Value> {
        let mut entries = Map::new();
        while !self.eat("}") {
            let key = match self.string() {
                Some(key) => key?,
                None => self.until(&[':', ',', '{', '}'])?.to_owned(),
            };
            if !self.eat(":") {
                return None;
            }
            entries.insert(key, self.value(depth + 1)?);
            if !self.eat(",") {
                return self.eat("}").then_some(Value::Object(entries));
            }
        }
        Some(Value::Object(entries))
    }

    /// Reads a string with quotes. The outer `None`: no string follows; the inner one: its end is missing.
    fn string(&mut self) -> Option<Option<String>> {
        if let Some(quote) = self.quote
            && self.eat(quote)
        {
            let ended = self.rest.split_once(quote);
            return Some(ended.map(|(text, rest)| {
                self.rest = rest;
                text.to_owned()
            }));
        }
        let quote = ['"', '\''].into_iter().find(|quote| self.eat(quote.encode_utf8(&mut [0; 4])))?;
        Some(self.escaped(quote))
    }

    /// Reads a string up to `quote` and decodes its escapes. An unknown escape is kept, as in Python.
    fn escaped(&mut self, quote: char) -> Option<String> {
        let mut text = String::new();
        let mut chars = self.rest.chars();
        while let Some(c) = chars.next() {
            if c == quote {
                self.rest = chars.as_str();
                return Some(text);
            }
            if c != '\\' {
                text.push(c);
                continue;
            }
            match chars.next()? {
                'n' => text.push('\n'),
                't' => text.push('\t'),
                'r' => text.push('\r'),
                'b' => text.push('\u{8}'),
                'f' => text.push('\u{c}'),
                '0' => text.push('\0'),
                '\n' => {}
                c @ ('x' | 'u' | 'U') => {
                    let digits = match c {
                        'x' => 2,
                        'u' => 4,
                        _ => 8,
                    };
                    let (number, rest) = chars.as_str().split_at_checked(digits)?;
                    text.push(char::from_u32(u32::from_str_radix(number, 16).ok()?)?);
                    chars = rest.chars();
                }
                c @ ('\\' | '\'' | '"' | '/') => text.push(c),
                c => text.extend(['\\', c]),
            }
        }
        None
    }

    /// Reads a number, a constant, or a string without quotes.
    fn word(&mut self) -> Option<Value> {
        let word = self.until(&[',', ']', '}', ')'])?;
        match word {
            "True" => Some(Value::Bool(true)),
            "False" => Some(Value::Bool(false)),
            "None" => Some(Value::Null),
            _ => match serde_json::from_str(word) {
                Ok(value) => Some(value),
                Err(_) => self.quote.map(|_| Value::String(word.to_owned())),
            },
        }
    }
}
