//! Hostile constraints: they end with an error, or compile; they never hang, panic, overflow the stack or fill the memory.

use std::fmt::Write as _;

use cairn_grammar::{Constraint, Part, Vocabulary};
use serde_json::{Value, json};

use crate::common::matcher;

/// Compiles it. If it compiles, computes masks of some first bytes of an answer.
fn survive(name: &str, constraint: &Constraint) {
    let began = std::time::Instant::now();
    let outcome = matcher(constraint).map(|mut matcher| {
        for step in 0..64 {
            let Ok(mask) = matcher.mask() else { return format!("no mask at step {step}") };
            let Some(token) = (32..256).chain(0..32).find(|&token| mask.is_allowed(token)) else {
                return format!("complete at step {step}");
            };
            if let Err(error) = matcher.accept(token) {
                return error.to_string();
            }
        }
        "64 steps".to_owned()
    });
    println!("{name:32} {:>8.1} ms  {outcome:?}", began.elapsed().as_secs_f64() * 1e3);
    assert!(!format!("{outcome:?}").contains("panic"), "{name}: {outcome:?}");
}

fn survive_schema(name: &str, schema: Value) {
    survive(name, &Constraint::JsonSchema(schema));
}

/// A schema that nests itself.
fn nested(depth: usize, wrap: impl Fn(Value) -> Value) -> Value {
    (0..depth).fold(json!({"type": "null"}), |inner, _| wrap(inner))
}

/// The test drops deep values, which recurses.
#[test]
fn deep_schemas_end() {
    let test = std::thread::Builder::new().stack_size(64 << 20).spawn(survive_depth).expect("a thread");
    test.join().expect("no panic");
}

fn survive_depth() {
    for depth in [50, 350, 1000] {
        survive_schema(&format!("items x{depth}"), nested(depth, |inner| json!({ "items": inner })));
        survive_schema(
            &format!("anyOf x{depth}"),
            nested(depth, |inner| json!({"anyOf": [inner, {"type": "string"}]})),
        );
        survive_schema(&format!("allOf x{depth}"), nested(depth, |inner| json!({"allOf": [inner, true]})));
        survive_schema(&format!("properties x{depth}"), nested(depth, |inner| json!({"properties": {"a": inner}})));
        survive_schema(&format!("const x{depth}"), json!({"const": nested(depth, |inner| json!([inner]))}));
        let chain = (0..depth).map(|at| (at.to_string(), json!({"$ref": format!("#/$defs/{}", at + 1)})));
        let mut chain: serde_json::Map<String, Value> = chain.collect();
        chain.insert(depth.to_string(), json!({"type": "null"}));
        survive_schema(&format!("$ref x{depth}"), json!({"$ref": "#/$defs/0", "$defs": chain}));
    }
}

#[test]
fn wide_schemas_end() {
    let doubled = |last: Value| {
        let pair = |at: usize| json!({"$ref": format!("#/$defs/{}", at + 1)});
        let mut defs: serde_json::Map<String, Value> =
            (0..60).map(|at| (at.to_string(), json!({"allOf": [pair(at), pair(at)]}))).collect();
        defs.insert("60".to_owned(), last);
        json!({"anyOf": [{"$ref": "#/$defs/0"}, {"type": "null"}], "$defs": defs})
    };
    survive_schema("2^60 references", doubled(json!({"type": "string"})));
    survive_schema("2^60 contradictions", doubled(json!(false)));
    survive_schema("2^60 negations", json!({"not": {"$ref": "#/$defs/0"}, "$defs": doubled(json!(true))["$defs"]}));
    let properties = |count: usize| -> Value { (0..count).map(|at| (format!("p{at}"), json!({}))).collect() };
    survive_schema("2000 properties", json!({"type": "object", "properties": properties(2000)}));
    survive_schema("9000 properties", json!({"type": "object", "properties": properties(9000)}));
    let required: Vec<String> = (0..2000).map(|at| format!("p{at}")).collect();
    survive_schema("2000 required", json!({"type": "object", "required": required}));
    survive_schema("2000 anyOf", json!({"anyOf": (0..2000).map(|at| json!({"const": at})).collect::<Vec<_>>()}));
    survive_schema("2000 oneOf", json!({"oneOf": (0..2000).map(|at| json!({"const": at})).collect::<Vec<_>>()}));
    survive_schema("20000 enum", json!({"enum": (0..20_000).map(|at| format!("v{at}")).collect::<Vec<_>>()}));
    let pairs: Vec<Value> = (0..20)
        .map(|at| json!({"anyOf": [{"required": [format!("a{at}")]}, {"required": [format!("b{at}")]}]}))
        .collect();
    survive_schema("2^20 alternatives", json!({"type": "object", "allOf": pairs}));
    let big = properties(500);
    let pairs: Vec<Value> =
        (0..12).map(|_| json!({"anyOf": [{"properties": big}, {"properties": big, "required": ["p1"]}]})).collect();
    survive_schema("large alternatives", json!({"type": "object", "allOf": pairs}));
    let patterns: Value = (0..200).map(|at| (format!("^a{at}b"), json!({}))).collect();
    survive_schema("200 patternProperties", json!({"type": "object", "patternProperties": patterns}));
}

#[test]
fn large_counts_and_numbers_end() {
    survive_schema("maxLength 100000", json!({"type": "string", "maxLength": 100_000}));
    survive_schema("minLength 100000", json!({"type": "string", "minLength": 100_000}));
    survive_schema("maxItems 100000", json!({"type": "array", "items": {"type": "null"}, "maxItems": 100_000}));
    survive_schema("minItems 100000", json!({"type": "array", "items": {"type": "null"}, "minItems": 100_000}));
    let items = nested(6, |inner| json!({"type": "array", "items": inner, "minItems": 99, "maxItems": 99}));
    survive_schema("99^6 items", items);
    survive_schema("multipleOf", json!({"type": "number", "multipleOf": 1e-17, "minimum": 0.1}));
    survive_schema("multipleOf prime", json!({"type": "integer", "multipleOf": 9_007_199_254_740_881_u64}));
    let factors: Vec<Value> = (0..30).map(|at| json!({"multipleOf": 1_000_003 + at * 2})).collect();
    survive_schema("lcm", json!({"type": "integer", "allOf": factors}));
    survive_schema(
        "bounds",
        json!({"type": "number", "exclusiveMinimum": -9_007_199_254_740_991_i64, "maximum": 1e-9}),
    );
    survive_schema("infinite", json!({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}));
}

#[test]
fn hostile_regular_expressions_end() {
    let many = "(a|b)*a".to_owned() + &"(a|b)".repeat(2000);
    let names = [
        "(?:(?:(?:a{1000}){1000}){1000}){1000}",
        r"\w{0,100000}",
        "(a*)*b",
        "(.*a){50}",
        "(x+x+)+y",
        "[^a]{65000}b",
        many.as_str(),
    ];
    for regex in names {
        let name: String = regex.chars().take(24).collect();
        survive(&format!("regex {name}"), &Constraint::Regex(regex.to_owned()));
        survive_schema(&format!("pattern {name}"), json!({"type": "string", "pattern": regex}));
    }
    let groups = format!("{}a{}", "(".repeat(8000), ")".repeat(8000));
    survive("regex of groups", &Constraint::Regex(groups.clone()));
    survive_schema("pattern of groups", json!({"pattern": groups}));
    survive_schema(
        "patterns",
        json!({"allOf": [{"type": "string", "pattern": many}, {"pattern": "b.*a.{40}$"}, {"pattern": "a.{30}b"}]}),
    );
}

#[test]
fn hostile_grammars_end() {
    let mut chain = "start: r0\n".to_owned();
    (0..6000).for_each(|at| writeln!(chain, "r{at}: r{}", at + 1).expect("a string"));
    survive("chain of rules", &Constraint::Lark(format!("{chain}r6000: \"a\"\n")));
    let mut terminals = "start: T0\n".to_owned();
    (0..4000).for_each(|at| writeln!(terminals, "T{at}: T{} \"a\"", at + 1).expect("a string"));
    survive("chain of terminals", &Constraint::Lark(format!("{terminals}T4000: \"a\"\n")));
    let mut doubled = "start: r0\n".to_owned();
    (0..40).for_each(|at| writeln!(doubled, "r{at}: r{0} r{0}", at + 1).expect("a string"));
    survive("2^40 symbols", &Constraint::Lark(format!("{doubled}r40: \"a\" | \"b\"\n")));
    survive("left recursion", &Constraint::Lark("start: start start | \"a\" | start\n".to_owned()));
    survive("empty loop", &Constraint::Lark("start: a\na: b | \"\"\nb: a | a b\n".to_owned()));
    survive("self", &Constraint::Lark("start: start\n".to_owned()));
    survive("terminal loop", &Constraint::Lark("start: A\nA: B\nB: A\n".to_owned()));
    survive("ambiguous", &Constraint::Lark("start: (a | b | c)*\na: /[a-z]*/\nb: /[a-y]*/\nc: /[b-z]*/\n".to_owned()));
    survive("brackets", &Constraint::Lark(format!("start: {}\"a\"{}\n", "(".repeat(20_000), ")".repeat(20_000))));
    survive("open brackets", &Constraint::Lark(format!("start: {}", "[".repeat(60_000))));
    survive("nots", &Constraint::Lark(format!("start: T\nT: {}/a/\n", "~".repeat(60_000))));
    survive("repeats", &Constraint::Lark("start: ((\"a\"{9999}){9999}){9999}\n".to_owned()));
    survive("schema in a grammar", &Constraint::Lark("start: %json {\"$ref\": \"#\"}\n".to_owned()));
    survive("unknown token", &Constraint::Lark("start: <[99999999]> <|x|>\n".to_owned()));
}

#[test]
fn hostile_parts_end() {
    let texts = |count: usize| Part::Choice((0..count).map(|at| Part::Text(format!("text {at}"))).collect());
    survive("5000 texts", &Constraint::Parts(texts(5000)));
    survive("100000 texts", &Constraint::Parts(texts(100_000)));
    let nested = (0..2000).fold(Part::Text("a".to_owned()), |inner, _| inner.optional());
    survive("2000 parts in parts", &Constraint::Parts(nested));
    let repeat = |part: Part| Part::Repeat { part: Box::new(part), separator: String::new(), most: Some(u32::MAX) };
    survive("repeated repetitions", &Constraint::Parts(repeat(repeat(repeat(Part::Text("a".to_owned()))))));
    survive("unknown token of a part", &Constraint::Parts(Part::Token(u32::MAX)));
    survive("backslash at the end", &Constraint::Parts(Part::Regex("/\\/|/\\".to_owned())));
}

#[test]
fn hostile_vocabularies_end() {
    let equal = vec![&b"same"[..]; 200_000];
    let vocabulary = Vocabulary::new(equal.iter().copied(), &[]).expect("equal pieces are not an error");
    assert_eq!(vocabulary.len(), 200_000, "all tokens");
    let long = vec![b'x'; 100_000];
    Vocabulary::new([&long[..], b"a", &[0xff, 0xfe], b"\xff<|tool|>", b"b"], &[1, 1])
        .expect("long and special pieces are left out");
    assert!(
        Vocabulary::new(std::iter::repeat_n(&long[..500], 20).chain([&b"a"[..]]), &[]).is_ok(),
        "equal long pieces"
    );
}
