//! Rust declarations and their schemas.

use super::*;

fn declarations(files: &[(&str, &str)]) -> Declarations {
    let mut all = Declarations::default();
    for (module, source) in files {
        all.add(module, source).expect("it is supported");
    }
    all
}

/// Compares the schema of the type `a.T` in a direction.
fn check(rust: &str, direction: Direction, expected: Value) {
    let schema = declarations(&[("a", rust)]).schema("a.T", direction).expect("it is supported");
    assert_eq!(schema, expected, "{direction:?}: {rust}");
}

#[test]
fn request_requires_fields_without_default_and_response_sends_unskipped_ones() {
    let rust = r#"#[derive(Serialize)] pub struct T {
        /// How many.
        pub count: u8,
        pub note: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub more: Option<bool>,
        #[serde(default, rename = "type")]
        pub kind: String,
    }"#;
    let count = json!({"type": "integer", "format": "uint8", "minimum": 0, "maximum": 255, "description": "How many."});
    check(
        rust,
        Direction::Request,
        json!({
            "type": "object",
            "properties": {"count": count, "note": {"type": ["string", "null"]}, "more": {"type": ["boolean", "null"]},
                "type": {"type": "string"}},
            "required": ["count"],
        }),
    );
    check(
        rust,
        Direction::Response,
        json!({
            "type": "object",
            "properties": {"count": count, "note": {"type": ["string", "null"]}, "more": {"type": "boolean"},
                "type": {"type": "string"}},
            "required": ["count", "note", "type"],
        }),
    );
}

#[test]
fn request_follows_attributes_of_deserialisation() {
    check(
        r#"#[derive(Deserialize)] #[serde(default, deny_unknown_fields)] pub struct T {
            #[serde(deserialize_with = "super::null_is_empty")] pub a: Vec<String>,
        }"#,
        Direction::Request,
        json!({
            "type": "object",
            "properties": {"a": {"type": ["array", "null"], "items": {"type": "string"}}},
            "additionalProperties": false,
        }),
    );
}

#[test]
fn enum_follows_its_representation() {
    check(
        r#"#[derive(Serialize)] #[serde(rename_all = "snake_case")] pub enum T { OneTwo, #[serde(rename = "x")] Three }"#,
        Direction::Response,
        json!({"type": "string", "enum": ["one_two", "x"]}),
    );
    let text = json!({"type": "string"});
    check(
        r#"#[derive(Serialize)] #[serde(untagged)] pub enum T { A(String), B { url: String } }"#,
        Direction::Response,
        json!({"anyOf": [text, {"type": "object", "properties": {"url": text}, "required": ["url"]}]}),
    );
    check(
        r#"#[derive(Serialize)] pub struct U { }
        #[derive(Serialize)] #[serde(tag = "status", rename_all = "snake_case")] pub enum T { Some { n: String }, Done(U) }"#,
        Direction::Response,
        json!({"oneOf": [
            {"type": "object", "properties": {"status": {"const": "some"}, "n": text}, "required": ["status", "n"]},
            {"allOf": [
                {"type": "object", "properties": {"status": {"const": "done"}}, "required": ["status"]},
                {"$ref": "#/components/schemas/a.U"},
            ]},
        ]}),
    );
    check(
        r#"#[derive(Serialize)] #[serde(rename_all = "snake_case")] pub enum T { Text(String) }"#,
        Direction::Response,
        json!({"oneOf": [
            {"type": "object", "properties": {"text": text}, "required": ["text"], "additionalProperties": false},
        ]}),
    );
}

#[test]
fn names_are_resolved_by_import_then_module_then_root() {
    let all = declarations(&[
        ("", "#[derive(Serialize)] pub struct Shared {}"),
        ("b", "#[derive(Serialize)] pub struct Message {} #[derive(Serialize)] pub struct Shared {}"),
        (
            "a",
            "use crate::b::{Message}; #[derive(Serialize)] pub struct T { m: Message, s: Shared, l: Limit<u8> }
               #[derive(Serialize)] pub struct Limit<V> { value: V }",
        ),
    ]);
    let schema = all.schema("a.T", Direction::Response).expect("it is supported");
    assert_eq!(schema["properties"]["m"], reference("b.Message"), "imported");
    assert_eq!(schema["properties"]["s"], reference("Shared"), "of the root");
    assert_eq!(schema["properties"]["l"]["properties"]["value"]["maximum"], 255, "with its argument");
    assert!(all.schema("a.Absent", Direction::Response).is_err(), "a type that does not exist");
}

#[test]
fn type_of_both_directions_is_split_only_if_it_differs() {
    let all = declarations(&[(
        "a",
        r#"#[derive(Serialize)] pub struct Same { x: bool }
        #[derive(Serialize)] pub struct Inner { #[serde(default)] y: bool }
        #[derive(Serialize)] pub struct Outer { inner: Inner, same: Same }"#,
    )]);
    let content = |name: &str| json!({"content": {"application/json": {"schema": reference(name)}}});
    let operation = json!({"requestBody": content("a.Outer"), "responses": {"200": content("a.Outer")}});
    let mut document = json!({"paths": {"/": {"post": operation}}, "components": {"schemas": {}}});
    complete(&mut document, &all).expect("all types exist");
    let names: Vec<&String> = document["components"]["schemas"].as_object().expect("an object").keys().collect();
    assert_eq!(names, ["a.Inner", "a.InnerInput", "a.Outer", "a.OuterInput", "a.Same"], "only types that differ");
    let post = &document["paths"]["/"]["post"];
    assert_eq!(post["requestBody"], content("a.OuterInput"), "the request");
    assert_eq!(post["responses"]["200"], content("a.Outer"), "the response");
    let outer = &document["components"]["schemas"]["a.OuterInput"]["properties"];
    assert_eq!(outer["inner"], reference("a.InnerInput"), "references of requests stay in requests");
}
