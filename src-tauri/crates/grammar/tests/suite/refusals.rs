//! Constraints that are refused, with the keyword and its position.

use cairn_grammar::{Constraint, Error, MAX_SCHEMA_BYTES, Vocabulary};
use serde_json::json;

use crate::common::{matcher, schema};

fn refusal(constraint: &Constraint) -> String {
    match matcher(constraint) {
        Ok(_) => panic!("it compiles: {constraint:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn unsupported_keyword_is_refused_with_its_position() {
    let check = |text: &str, keyword: &str, at: &str| {
        let error = matcher(&schema(text)).expect_err(text);
        let Error::UnsupportedKeyword { keyword: found, at: place, .. } = &error else { panic!("{text}: {error:?}") };
        assert_eq!((found.as_str(), place.as_str()), (keyword, at), "{text}: {error}");
    };
    check(r#"{"properties": {"a/b": {"items": {"uniqueItems": true}}}}"#, "uniqueItems", "#/properties/a~1b/items");
    check(r#"{"anyOf": [{"type": "null"}, {"not": {"pattern": "a"}}]}"#, "pattern", "#/anyOf/1/not");
    check(r#"{"not": {"const": [1]}}"#, "const", "#/not");
    check(r#"{"prefixItems": [{"contains": {}, "minContains": 99}]}"#, "contains", "#/prefixItems/0");
    check(
        r##"{"$dynamicRef": "#a", "$defs": {"b": {"$dynamicAnchor": "a"}, "c": {"$id": "c", "$dynamicAnchor": "a"}}}"##,
        "$dynamicRef",
        "#",
    );
    check(r#"{"type": "number", "not": {"type": "integer"}}"#, "type", "#/not");
    check(r#"{"pattern": "^(?=a)"}"#, "pattern", "#");
    check(r#"{"pattern": "[a&&b]"}"#, "pattern", "#");
    check(r#"{"$ref": "https://example.com/schema"}"#, "$ref", "#");
    check(r#"{"type": "object", "properties": {"a": {}}, "maxProperties": 3}"#, "maxProperties", "#");
    check(r#"{"minProperties": 2}"#, "minProperties", "#");
    check(r#"{"maximum": 18446744073709551615}"#, "maximum", "#");
    check(r#"{"allOf": [{"multipleOf": 1000}, {"multipleOf": 999}]}"#, "multipleOf", "#/allOf/1");
    check(r#"{"minLength": 100001}"#, "minLength", "#");
    check("{\"const\": \"a\\u0001\"}", "const", "#");
}

#[test]
fn keyword_that_asserts_nothing_is_accepted() {
    for text in [
        r#"{"uniqueItems": false}"#,
        r#"{"propertyNames": {}}"#,
        r#"{"unevaluatedProperties": true}"#,
        r#"{"if": false}"#,
        r#"{"minProperties": 0, "dependentSchemas": {}}"#,
        r#"{"$anchor": "a", "$comment": "c", "then": false, "minContains": 2, "deprecated": true}"#,
        r##"{"properties": {"a": {"$id": "#/properties/a", "$ref": "#/$defs/b"}}, "$defs": {"b": {}}}"##,
    ] {
        matcher(&schema(text)).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}

#[test]
fn invalid_keyword_is_refused_with_its_position() {
    let check = |text: &str, keyword: &str, at: &str| {
        let error = matcher(&schema(text)).expect_err(text);
        let Error::InvalidKeyword { keyword: found, at: place, .. } = &error else { panic!("{text}: {error:?}") };
        assert_eq!((found.as_str(), place.as_str()), (keyword, at), "{text}: {error}");
    };
    check(r#"{"type": "text"}"#, "type", "#");
    check(r#"{"properties": {"a": {"type": []}}}"#, "type", "#/properties/a");
    check(r#"{"properties": []}"#, "properties", "#");
    check(r#"{"required": [1]}"#, "required", "#");
    check(r#"{"minItems": -1}"#, "minItems", "#");
    check(r#"{"multipleOf": 0}"#, "multipleOf", "#");
    check(r#"{"enum": []}"#, "enum", "#");
    check(r#"{"anyOf": []}"#, "anyOf", "#");
    check(r##"{"$ref": "#/$defs/a"}"##, "$ref", "#");
    check(r##"{"$dynamicRef": "#a"}"##, "$dynamicRef", "#");
    check(r##"{"properties": {"a": {"$id": "b", "$ref": "#/x"}}}"##, "$ref", "#/properties/a");
    check(r##"{"$ref": "#"}"##, "$ref", "#");
    check(
        r##"{"$defs": {"a": {"properties": {"x": {"$ref": "#/$defs/b"}}, "allOf": [{"$ref": "#/$defs/b"}]},
        "b": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}"##,
        "$ref",
        "#/$defs/b/anyOf/1",
    );
}

#[test]
fn long_names_and_references_are_cut_in_errors() {
    let long = "ö".repeat(5000);
    let check = |text: String, expected: &str| {
        let error = matcher(&schema(&text)).expect_err("refused").to_string();
        assert!(error.contains('…') && error.contains(expected) && error.chars().count() < 400, "{error}");
    };
    check(format!(r#"{{"$ref": "{long}"}}"#), "is not in the same document");
    check(format!(r##"{{"$ref": "#{long}"}}"##), "does not exist");
    check(format!(r#"{{"properties": {{"{long}": {{"uniqueItems": true}}}}}}"#), "`uniqueItems` at #/properties/öö");
    check(format!(r#"{{"properties": {{"{long}": {{"minItems": -1}}}}}}"#), "invalid `minItems`");
    check(format!(r#"{{"properties": {{"{long}": 1}}}}"#), "must be an object or a boolean");
}

#[test]
fn schema_that_is_none_is_refused() {
    let error = matcher(&schema(r#"{"properties": {"a": 1}}"#)).expect_err("1 is not a schema");
    assert_eq!(error, Error::NotASchema { at: "#/properties/a".to_owned() }, "{error}");
    assert!(matches!(matcher(&schema("[]")), Err(Error::NotASchema { .. })), "a list is not a schema");
}

#[test]
fn unsatisfiable_schema_is_refused() {
    for text in [
        "false",
        r#"{"allOf": [{"type": "null"}, {"type": "string"}]}"#,
        r#"{"type": "integer", "minimum": 3, "maximum": 2}"#,
        r#"{"type": "object", "properties": {"a": false}, "required": ["a"]}"#,
        r#"{"type": "string", "minLength": 3, "maxLength": 2}"#,
        r#"{"type": "string", "const": 1}"#,
    ] {
        let error = matcher(&schema(text)).expect_err(text);
        assert!(matches!(error, Error::Unsatisfiable(_)), "{text}: {error:?}");
    }
}

#[test]
fn invalid_regular_expression_and_grammar_are_refused() {
    for (constraint, kind) in [
        (Constraint::Regex("(a".to_owned()), "regular expression: "),
        (Constraint::Regex(r"a\b".to_owned()), "regular expression: "),
        (Constraint::Lark("start: missing".to_owned()), "grammar: "),
        (Constraint::Lark("start: \"a".to_owned()), "grammar: "),
        (Constraint::Lark(String::new()), "grammar: "),
        (Constraint::Lark("start: <|x|>".to_owned()), "grammar: special tokens are not supported"),
    ] {
        let error = refusal(&constraint);
        assert!(
            error.starts_with(kind) && !error.contains('\n') && error.len() >= kind.len().max(12),
            "{constraint:?}: {error}"
        );
    }
}

#[test]
fn invalid_expression_is_refused_with_its_reason_and_position() {
    let check = |constraint: Constraint, expected: &str| {
        let error = refusal(&constraint);
        assert!(error.contains(expected) && error.chars().count() < 700, "{constraint:?}: {error}");
    };
    let long = "x".repeat(5000);
    check(Constraint::Regex("(a".to_owned()), "regular expression: unclosed group at character 1: `(a`");
    check(Constraint::Regex(format!("{long}(")), "regular expression: unclosed group at character 5001: `(`");
    check(Constraint::Regex(r"a\b".to_owned()), "regular expression: lookarounds not supported yet");
    check(
        schema(r#"{"properties": {"a": {"pattern": "b.[b-a]"}}}"#),
        "invalid `pattern` at #/properties/a: invalid char",
    );
    check(schema(r#"{"pattern": "b.[b-a]"}"#), "at character 4: `b-a]`");
    check(schema(r#"{"patternProperties": {"(": true}}"#), "invalid `patternProperties` at #: unclosed group");
    check(Constraint::Lark("start: \"a\" b\nb: /(a/".to_owned()), "at 2(4): invalid regex");
    check(Constraint::Lark(format!("start: /{long}(/")), "unclosed group");
}

#[test]
fn large_constraint_is_refused_by_its_size() {
    let text = "x".repeat(MAX_SCHEMA_BYTES);
    let error = refusal(&Constraint::JsonSchema(json!({ "title": text })));
    let expected = "the JSON schema is too large: 262156 bytes, at most 262144 are allowed; send a smaller one";
    assert_eq!(error, expected);
    let error = refusal(&Constraint::Regex("a".repeat(20 << 10)));
    assert!(error.starts_with("the regular expression is too large: 20480 bytes, at most 16384 "), "{error}");
    let error = refusal(&Constraint::Lark("#".repeat(70 << 10)));
    assert!(error.starts_with("the grammar is too large: 71680 bytes, at most 65536 "), "{error}");
    let error = refusal(&Constraint::Lark("(".repeat(500)));
    assert!(error.starts_with("the grammar is too large: 500 levels of brackets, at most 400 "), "{error}");
}

#[test]
fn vocabulary_that_cannot_be_indexed_is_refused() {
    let end = Vocabulary::new([&b"a"[..]], &[7]).expect_err("there is no token 7");
    assert!(matches!(&end, Error::Vocabulary(why) if why.contains('7')), "{end}");
    assert!(Vocabulary::new([&b""[..]], &[]).is_err(), "no token has text");
}
