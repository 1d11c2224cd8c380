//! Mutations of a valid request: of its JSON, its bytes, its target, its headers, its method and its framing.

use cairn_testkit::Random;
use serde_json::{Map, Value, json};

use super::dictionary::{HEADERS, KEYS, METHODS, PIECES, RAW, TEXTS};
use super::exchange::{Framing, Request};
use super::world::World;

/// Placeholder in JSON that is replaced by [`RAW`], which `serde_json` cannot write.
const PLACEHOLDER: &str = "@raw@";
/// Bodies of more bytes get no further nested values.
const MAX_RAW_BYTES: usize = 2 << 20;

/// Returns a number of `0..bound` that is at most the largest index of a list of `bound` elements.
fn index(random: &mut Random, bound: usize) -> usize {
    random.below(bound as u64) as usize
}

fn pick<'a, T: ?Sized>(random: &mut Random, list: &[&'a T]) -> &'a T {
    list[index(random, list.len())]
}

/// Returns JSON after up to three mutations.
pub(super) fn json(random: &mut Random, mut body: Value, world: &World) -> Vec<u8> {
    for _ in 0..=random.below(3) {
        change(random, &mut body, world);
    }
    let bytes = serde_json::to_vec(&body).expect("the value has string keys");
    let placeholder = format!("\"{PLACEHOLDER}\"");
    let (mut written, mut left) = (Vec::new(), &bytes[..]);
    while let Some(at) = find(left, placeholder.as_bytes()) {
        written.extend_from_slice(&left[..at]);
        left = &left[at + placeholder.len()..];
        let raw = match random.below(8) {
            0 if written.len() < MAX_RAW_BYTES => nested(random, b"[", b"]"),
            1 if written.len() < MAX_RAW_BYTES => nested(random, b"{\"a\":", b"}"),
            _ => RAW[index(random, RAW.len())].to_vec(),
        };
        written.extend(raw);
    }
    written.extend_from_slice(left);
    written
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

/// Returns a deeply nested value. Every third one has no end.
fn nested(random: &mut Random, open: &[u8], close: &[u8]) -> Vec<u8> {
    let depth = [3, 127, 128, 129, 5_000, 100_000][index(random, 6)];
    let inner: &[u8] = if close == b"}" { b"1" } else { b"" };
    let end = if random.below(3) == 0 { Vec::new() } else { close.repeat(depth) };
    [open.repeat(depth), inner.to_vec(), end].concat()
}

/// Applies one mutation to a random node.
fn change(random: &mut Random, body: &mut Value, world: &World) {
    let count = count(body);
    let mut left = index(random, count);
    let node = node(body, &mut left).expect("the index is below the number of nodes");
    match (random.below(10), &mut *node) {
        (0..=2, Value::Object(map)) if !map.is_empty() => {
            let at = index(random, map.len());
            let key = map.keys().nth(at).cloned().expect("the index is valid");
            let value = map.remove(&key).unwrap_or_default();
            match random.below(3) {
                0 => {}
                1 => drop(map.insert(pick(random, KEYS).to_owned(), value)),
                _ => drop(map.insert(key.to_uppercase(), value)),
            }
        }
        (3..=4, Value::Object(map)) => {
            map.insert(pick(random, KEYS).to_owned(), odd(random, world));
        }
        (0..=2, Value::Array(list)) => {
            let item = list.first().cloned().unwrap_or_else(|| odd(random, world));
            let times = [1, 2, 50, 5_000][index(random, 4)];
            list.extend(std::iter::repeat_n(item, times));
        }
        (0..=3, Value::String(text)) => *text = change_text(random, text, world),
        (4, _) => *node = Value::Array(vec![node.take()]),
        (5, _) => *node = Value::Object(Map::from_iter([(pick(random, KEYS).to_owned(), node.take())])),
        _ => *node = odd(random, world),
    }
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(list) => list.iter().map(count).sum(),
        Value::Object(map) => map.values().map(count).sum(),
        _ => 0,
    }
}

/// Returns the node with the index `left` in depth-first order.
fn node<'a>(value: &'a mut Value, left: &mut usize) -> Option<&'a mut Value> {
    if *left == 0 {
        return Some(value);
    }
    *left -= 1;
    match value {
        Value::Array(list) => list.iter_mut().find_map(|value| node(value, left)),
        Value::Object(map) => map.values_mut().find_map(|value| node(value, left)),
        _ => None,
    }
}

/// Returns a value that the field rarely expects.
fn odd(random: &mut Random, world: &World) -> Value {
    match random.below(12) {
        0 => Value::Null,
        1 => json!(random.below(2) == 0),
        2 => [
            json!(0),
            json!(-1),
            json!(1),
            json!(2),
            json!(i64::MAX),
            json!(i64::MIN),
            json!(u64::MAX),
            json!(1_u64 << 32),
        ][index(random, 8)]
        .clone(),
        3 => json!([0.5, -0.5, 1e308, -1e308, 1e-320, 4_294_967_296.5][index(random, 6)]),
        4 => json!([]),
        5 => json!({}),
        6 => json!([Value::Null, {}, [[]], "", 1]),
        7 => json!({"type": "object", "properties": {"a": {"$ref": "#"}}, "pattern": "(a+)+$"}),
        8 | 9 => json!(PLACEHOLDER),
        _ => json!(text(random, world)),
    }
}

fn text(random: &mut Random, world: &World) -> String {
    match random.below(8) {
        0 => "x".repeat([100, 5_000, 100_000][index(random, 3)]),
        1 => "\u{fdfa}\u{1f4a5}\u{301}".repeat([10, 5_000][index(random, 2)]),
        2 => "../".repeat(1_000),
        3 => {
            let words = world.words();
            words[index(random, words.len())].to_owned()
        }
        _ => pick(random, TEXTS).to_owned(),
    }
}

fn change_text(random: &mut Random, old: &str, world: &World) -> String {
    let at = old.char_indices().nth(index(random, old.chars().count().max(1))).map_or(0, |(at, _)| at);
    match random.below(5) {
        0 => old[..at].to_owned(),
        1 => old.repeat(1 + index(random, 300)),
        2 => [&old[..at], pick(random, TEXTS), &old[at..]].concat(),
        3 => old.to_uppercase(),
        _ => text(random, world),
    }
}

/// Changes bytes of a body without regard to its format.
pub(super) fn bytes(random: &mut Random, body: &mut Vec<u8>) {
    let at = index(random, body.len() + 1);
    match random.below(7) {
        0 => body.truncate(at),
        1 => body.splice(at..at, *b"\xff\xfe\x00").for_each(drop),
        2 => body.splice(0..0, *b"\xef\xbb\xbf").for_each(drop),
        3 => body.extend_from_slice(&body.clone()),
        4 => body.extend(std::iter::repeat_n(b' ', 1_200_000)),
        5 => body.splice(at..at, b"[".repeat(2_000_000)).for_each(drop),
        _ => {
            for _ in 0..=random.below(8) {
                let at = index(random, body.len().max(1));
                if let Some(byte) = body.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
        }
    }
}

/// Changes the path or the query.
pub(super) fn target(random: &mut Random, target: &mut Vec<u8>) {
    let at = index(random, target.len() + 1);
    match random.below(8) {
        0 => target.truncate(at),
        1 => *target = [&target[..], b"?a=", &b"%41".repeat(3_000)].concat(),
        2 => *target = [&target[..], b"/", &b"a/".repeat(1_000)].concat(),
        3 => *target = [b"http://evil.example", &target[..]].concat(),
        // A line break or a blank would end the target.
        4 => *target = target.iter().flat_map(|byte| format!("%{byte:02x}").into_bytes()).collect(),
        _ => target.splice(at..at, pick(random, PIECES).bytes()).for_each(drop),
    }
    if !target.starts_with(b"/") && random.below(4) > 0 {
        target.insert(0, b'/');
    }
}

/// Changes a header, the method or the framing.
pub(super) fn head(random: &mut Random, request: &mut Request) {
    match random.below(10) {
        0..=4 => {
            let (name, value) = HEADERS[index(random, HEADERS.len())];
            match random.below(4) {
                0 => request.headers.push((name.to_owned(), value.to_owned())),
                _ => request.set_header(name, value),
            }
        }
        5 => {
            let at = index(random, request.headers.len());
            request.headers.remove(at);
        }
        6 => request.headers.push(("X-Long".to_owned(), b"a".repeat([1_000, 20_000, 500_000][index(random, 3)]))),
        7 => (0..200).for_each(|number| request.headers.push((format!("X-{number}"), b"a".to_vec()))),
        _ => request.method = pick(random, METHODS).into(),
    }
}

pub(super) fn framing(random: &mut Random, request: &mut Request) {
    match random.below(8) {
        0 | 1 => request.framing = Framing::Chunked,
        2 => request.framing = Framing::WrongLength([1, -1, 1_000_000, 100_000_000_000][index(random, 4)]),
        3 => request.framing = Framing::BadChunk,
        4 => request.framing = Framing::None,
        5 => request.version = ["HTTP/1.0", "HTTP/2.0", "HTTP/9.9", "", "http/1.1"][index(random, 5)],
        _ => request.cut = Some(index(random, request.to_bytes().len() + 1)),
    }
}
