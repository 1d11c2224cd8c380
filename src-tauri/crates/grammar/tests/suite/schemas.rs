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
fn schema_without_type_accepts_values_of_other_types() {
    let object = r#"{"properties": {"a": {"const": 1}}}"#;
    check_schema(object, &["{}", r#"{"a":1,"b":[]}"#, "1", "null", "[{}]"], &[r#"{"a":2}"#]);
    check_schema(r#"{"items": {"type": "null"}}"#, &["[]", "[null, null]", "1", "{}"], &["[1]"]);
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

#[test]
fn negations_accept_other_values() {
    check_schema(r#"{"not": {"type": "string"}}"#, &["1", "{}", "null"], &[r#""a""#]);
    check_schema(r#"{"type": "integer", "not": {"minimum": 3}}"#, &["2", "-7"], &["3", "4"]);
    check_schema(
        r#"{"type": "string", "not": {"enum": ["ab", "a", ""]}}"#,
        &[r#""b""#, r#""abc""#, r#""ac""#, r#""ba""#],
        &[r#""ab""#, r#""a""#, r#""""#],
    );
    let object = r#"{"type": "object", "not": {"properties": {"a": {"type": "string"}}, "required": ["a"]}}"#;
    check_schema(object, &["{}", r#"{"a":1}"#, r#"{"b":"x"}"#], &[r#"{"a":"x"}"#]);
    check_schema(r#"{"not": {"not": {"type": "null"}}}"#, &["null"], &["1"]);
}

#[test]
fn one_of_excludes_what_two_alternatives_accept() {
    let lengths = r#"{"type": "string", "oneOf": [{"minLength": 2}, {"maxLength": 4}]}"#;
    check_schema(lengths, &[r#""a""#, r#""abcde""#], &[r#""abc""#]);
    let required = r#"{"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}"#;
    check_schema(required, &[r#"{"a":1}"#, r#"{"b":1,"c":2}"#], &["{}", r#"{"a":1,"b":1}"#]);
}

#[test]
fn conditions_select_a_branch() {
    let address = r#"{"type": "object", "properties": {"country": {"enum": ["NO", "DE"]}, "code": {"type": "string"}},
        "required": ["country", "code"], "additionalProperties": false,
        "if": {"properties": {"country": {"const": "NO"}}},
        "then": {"properties": {"code": {"pattern": "^[0-9]{4}$"}}},
        "else": {"properties": {"code": {"pattern": "^[0-9]{5}$"}}}}"#;
    check_schema(
        address,
        &[r#"{"country":"NO","code":"0150"}"#, r#"{"country":"DE","code":"10115"}"#],
        &[r#"{"country":"NO","code":"10115"}"#, r#"{"country":"DE","code":"0150"}"#],
    );
}

#[test]
fn dependencies_apply_when_their_property_exists() {
    let card = r#"{"type": "object", "properties": {"card": {"type": "integer"}, "address": {"type": "string"}},
        "dependentRequired": {"card": ["address"]}}"#;
    check_schema(card, &["{}", r#"{"card":1,"address":"x"}"#, r#"{"address":"x"}"#], &[r#"{"card":1}"#]);
    let schemas = r#"{"type": "object", "dependentSchemas": {"a": {"properties": {"b": {"type": "null"}}}}}"#;
    check_schema(schemas, &[r#"{"b":1}"#, r#"{"a":1,"b":null}"#], &[r#"{"a":1,"b":1}"#]);
}

#[test]
fn contains_demands_matching_items() {
    check_schema(r#"{"type": "array", "contains": {"const": 1}}"#, &["[1]", "[2,1,3]"], &["[]", "[2]"]);
    let range = r#"{"type": "array", "contains": {"const": 1}, "minContains": 1, "maxContains": 2}"#;
    check_schema(range, &["[1]", "[1,1,2]", "[2,1]"], &["[]", "[2]", "[1,1,1]"]);
}

#[test]
fn unique_items_of_an_enumeration_are_different() {
    let tags = r#"{"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": true, "minItems": 1}"#;
    check_schema(tags, &[r#"["a"]"#, r#"["a","c"]"#, r#"["a","b","c"]"#], &["[]", r#"["a","a"]"#, r#"["d"]"#]);
}

#[test]
fn names_of_properties_match_their_schema() {
    let pattern =
        r#"{"type": "object", "propertyNames": {"pattern": "^[a-c]+$"}, "additionalProperties": {"type": "integer"}}"#;
    check_schema(pattern, &["{}", r#"{"ab":1,"c":2}"#], &[r#"{"d":1}"#, r#"{"a":"x"}"#]);
    let names = r#"{"type": "object", "propertyNames": {"enum": ["a", "b"]}, "required": ["b"]}"#;
    check_schema(names, &[r#"{"b":1}"#, r#"{"a":2,"b":1}"#], &[r#"{"a":1}"#, r#"{"b":1,"c":1}"#]);
}

#[test]
fn unevaluated_properties_and_items_are_limited() {
    let closed = r##"{"type": "object", "allOf": [{"$ref": "#/$defs/base"}], "properties": {"b": {"type": "integer"}},
        "unevaluatedProperties": false, "$defs": {"base": {"properties": {"a": {"type": "string"}}}}}"##;
    check_schema(closed, &["{}", r#"{"a":"x","b":1}"#], &[r#"{"c":1}"#, r#"{"a":1}"#]);
    let branches = r#"{"type": "object", "anyOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]},
        {"properties": {"b": {"const": 1}}, "required": ["b"]}], "unevaluatedProperties": false}"#;
    check_schema(branches, &[r#"{"a":1}"#, r#"{"b":1}"#, r#"{"a":1,"b":1}"#], &["{}", r#"{"a":1,"b":2}"#]);
    let items =
        r#"{"type": "array", "allOf": [{"prefixItems": [{"type": "string"}]}], "unevaluatedItems": {"type": "null"}}"#;
    check_schema(items, &[r#"["a"]"#, r#"["a",null]"#, "[]"], &["[1]", r#"["a",1]"#]);
}

#[test]
fn references_use_identifiers_and_anchors() {
    let list = r##"{"$id": "https://example.com/list", "type": "array", "items": {"$ref": "entry"}, "$defs": {
        "entry": {"$id": "entry", "anyOf": [{"$ref": "#leaf"}, {"$ref": "list"}], "$defs": {"leaf": {"$anchor": "leaf", "type": "null"}}}}}"##;
    check_schema(list, &["[]", "[null,[null]]"], &["[1]", "null"]);
    let dynamic = r##"{"type": "array", "items": {"$dynamicRef": "#node"}, "$defs": {"a": {"$dynamicAnchor": "node", "type": "null"}}}"##;
    check_schema(dynamic, &["[null]"], &["[1]"]);
}
