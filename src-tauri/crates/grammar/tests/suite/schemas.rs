//! JSON Schema keywords that are enforced.

use crate::common::{check, schema};

fn check_schema(text: &str, accepted: &[&str], others: &[&str]) {
    check(&schema(text), accepted, others);
}

#[test]
fn object_has_its_properties_in_order() {
    let person = r#"{"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}, "age": {"type": "integer",
        "minimum": 0, "maximum": 120}}, "required": ["name"], "additionalProperties": false}"#;
    let others = [
        "{}",
        r#"{"age": 5}"#,
        r#"{"name": "abcd"}"#,
        r#"{"name": "a", "age": 121}"#,
        r#"{"name": "a", "age": -1}"#,
        r#"{"name": "a", "age": 5.5}"#,
        r#"{"name": "a", "size": 1}"#,
        r#"{"name": 1}"#,
        "null",
    ];
    check_schema(person, &[r#"{"name": "abc"}"#, r#"{"name": "é🦙a", "age": 120}"#, r#"{"name":"","age":0}"#], &others);
}

#[test]
fn schema_without_type_accepts_the_type_of_its_keywords() {
    check_schema(r#"{"properties": {"a": {"const": 1}}}"#, &["{}", r#"{"a":1,"b":[]}"#], &["1", "null", r#"{"a":2}"#]);
    check_schema(r#"{"items": {"type": "null"}}"#, &["[]", "[null, null]"], &["1", "[1]"]);
    check_schema(r#"{"type": ["object", "null"], "allOf": [{"required": ["a"]}]}"#, &["null", r#"{"a":1}"#], &["{}"]);
}

#[test]
fn property_cannot_be_spelled_with_escapes() {
    let open = r#"{"type": "object", "properties": {"a": {"type": "integer"}}}"#;
    check_schema(open, &[r#"{"a":1,"b":"x"}"#], &[r#"{"\u0061":"x"}"#, r#"{"b":1,"a":"x"}"#, r#"{"a":1,"a":"x"}"#]);
    let shut = r#"{"type": "object", "properties": {"a": false, "b": {}}}"#;
    check_schema(shut, &[r#"{"b":1}"#, r#"{"c":1}"#], &[r#"{"a":1}"#, r#"{"\u0061":1}"#]);
}

#[test]
fn references_are_pointers_with_escapes_and_may_recurse() {
    let tree = r##"{"$ref": "#/$defs/a~1b%20c", "$defs": {"a/b c": {"type": "object", "properties": {"next": {"anyOf": [
        {"$ref": "#/$defs/a~1b%20c"}, {"type": "null"}]}}, "required": ["next"], "additionalProperties": false}}}"##;
    check_schema(tree, &[r#"{"next":null}"#, r#"{"next":{"next":{"next":null}}}"#], &["null", r#"{"next":{}}"#, "{}"]);
    let list = r##"{"type": "array", "items": {"$ref": "#"}, "maxItems": 1}"##;
    check_schema(list, &["[]", "[[]]", "[[[]]]"], &["[[],[]]", "[1]"]);
}

#[test]
fn disjoint_one_of_is_accepted_through_references() {
    let union = r##"{"oneOf": [{"$ref": "#/$defs/cat"}, {"$ref": "#/$defs/dog"}], "$defs": {
        "cat": {"type": "object", "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}}, "required": ["kind"]},
        "dog": {"type": "object", "properties": {"kind": {"enum": ["dog", "puppy"]}}}}}"##;
    check_schema(union, &[r#"{"kind":"cat","lives":9}"#, r#"{"kind":"puppy"}"#, "{}"], &[r#"{"kind":"cow"}"#]);
    check_schema(r#"{"oneOf": [{"type": "string"}, {"type": "null"}]}"#, &["null", r#""a""#], &["1"]);
    let names = r#"{"oneOf": [{"type": "object", "required": ["a"], "properties": {"a": {}}, "additionalProperties": false},
        {"type": "object", "required": ["b"], "properties": {"b": {}}, "additionalProperties": false}]}"#;
    check_schema(names, &[r#"{"a":1}"#, r#"{"b":1}"#], &["{}", r#"{"a":1,"b":1}"#]);
    let both = r#"{"anyOf": [{"enum": [1, "a"]}, {"enum": [2]}], "oneOf": [{"type": "string"}, {"type": "integer"}]}"#;
    check_schema(both, &["1", "2", r#""a""#], &["3", r#""b""#]);
}

#[test]
fn patterns_follow_ecmascript() {
    let pattern = |pattern: &str| {
        let escaped = serde_json::to_string(pattern).expect("a text");
        format!(r#"{{"type": "string", "pattern": {escaped}}}"#)
    };
    check_schema(&pattern("b"), &[r#""b""#, r#""abc""#], &[r#""ac""#, r#""""#]);
    check_schema(&pattern("^a|b$"), &[r#""ax""#, r#""xb""#], &[r#""xa""#, r#""bx""#]);
    check_schema(&pattern(r"^\d{2}$"), &[r#""42""#], &[r#""٤٢""#, r#""4""#, r#""423""#]);
    check_schema(&pattern("^a.c$"), &[r#""abc""#, r#""a🦙c""#], &[r#""a\rc""#, "\"a\u{2028}c\""]);
    check_schema(&pattern(r"^[\s]\S$"), &["\"\u{feff}a\"", r#"" a""#], &["\"\u{85}a\"", r#""a ""#]);
    check_schema(&pattern("^(?<stop>a)/$"), &[r#""a/""#], &[r#""a""#]);
}

#[test]
fn numbers_keep_their_bounds() {
    let check = |text: &str, accepted: &[&str], others: &[&str]| check_schema(text, accepted, others);
    check(
        r#"{"type": "number", "minimum": -1.5, "exclusiveMaximum": 2}"#,
        &["-1.5", "0", "1.999"],
        &["-1.51", "2", "2.0", "9"],
    );
    check(r#"{"type": "number", "minimum": 1, "exclusiveMinimum": true}"#, &["1.1", "2"], &["1", "1.0", "0"]);
    check(r#"{"type": "integer", "multipleOf": 7, "minimum": 10, "maximum": 30}"#, &["14", "28"], &["7", "15", "35"]);
    check(r#"{"type": "number", "multipleOf": 0.25}"#, &["0.25", "1", "7.50"], &["0.3", "1.1"]);
    check(r#"{"type": "number", "multipleOf": 4, "allOf": [{"multipleOf": 0.6}]}"#, &["12", "24"], &["4", "6", "0.6"]);
    check(r#"{"enum": [1, 2.5, -3]}"#, &["1", "2.5", "-3"], &["2", "3", "1.5", "25"]);
    check(r#"{"const": {"a": [1, null]}}"#, &[r#"{"a":[1,null]}"#], &[r#"{"a":[1]}"#, r#"{"a":[1,null],"b":1}"#, "{}"]);
}

#[test]
fn arrays_keep_their_counts_and_positions() {
    let pair = r#"{"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": false, "minItems": 2.0}"#;
    check_schema(pair, &[r#"[1,"a"]"#], &["[1]", r#"["a",1]"#, r#"[1,"a",2]"#]);
    let old = r#"{"$schema": "http://json-schema.org/draft-07/schema#", "type": "array", "items": [{"type": "null"}],
        "additionalItems": {"type": "boolean"}, "maxItems": 3}"#;
    check_schema(old, &["[]", "[null,true,false]"], &["[true]", "[null,1]", "[null,true,true,true]"]);
}

#[test]
fn formats_are_enforced_or_annotations() {
    check_schema(
        r#"{"type": "string", "format": "date"}"#,
        &[r#""2024-02-29""#, r#""2000-02-29""#],
        &[r#""2023-02-29""#, r#""1900-02-29""#, r#""2024-13-01""#],
    );
    check_schema(
        r#"{"type": "string", "format": "date", "pattern": "^19"}"#,
        &[r#""1999-01-01""#],
        &[r#""2024-01-01""#],
    );
    check_schema(
        r#"{"type": "string", "format": "hostname"}"#,
        &[r#""a-b.example.org""#],
        &[r#""xn--x.org""#, r#""-a""#],
    );
    check_schema(
        r#"{"type": "string", "format": "uuid"}"#,
        &[r#""123e4567-e89b-12d3-a456-426614174000""#],
        &[r#""123""#],
    );
    check_schema(r#"{"type": "integer", "format": "int64", "title": "x", "x-order": 3}"#, &["7"], &[r#""7""#]);
}

#[test]
fn keywords_beside_applied_schemas_stay_together() {
    let mixed = r#"{"additionalProperties": false, "allOf": [{"required": ["a"]}], "patternProperties": {"^b": {"type": "null"}},
        "properties": {"a": {"type": "integer"}}, "type": "object"}"#;
    check_schema(mixed, &[r#"{"a":1}"#, r#"{"a":1,"bc":null}"#], &["{}", r#"{"a":1,"c":1}"#, r#"{"a":1,"b":1}"#]);
}
