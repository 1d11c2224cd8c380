//! Rust declarations and their TypeScript.

use super::*;

fn check(rust: &str, expected: &str) {
    let declared = declarations(rust).expect("it is supported");
    let text: String = declared.into_iter().map(|(_, text)| text).collect();
    assert_eq!(text.trim(), expected.trim(), "{rust}");
}

#[test]
fn struct_becomes_object_type() {
    check(
        r#"/// A thing.
        #[derive(Serialize, Deserialize)]
        pub struct Thing {
            /// How many.
            pub count: u64,
            pub name: Option<String>,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub note: Option<Vec<Part>>,
            #[serde(rename = "type")]
            pub kind: BTreeMap<String, Value>,
            #[serde(flatten)]
            pub rest: Rest,
        }"#,
        "/** A thing. */\nexport type Thing = {\n  /** How many. */\n  count: number;\n  name: string | null;\n  note?: Part[];\n  \
         type: Record<string, unknown>;\n} & Rest;",
    );
}

#[test]
fn struct_of_flattened_fields_becomes_intersection() {
    check(
        "#[derive(Serialize)] pub struct X { #[serde(flatten)] a: A, #[serde(flatten)] b: B }",
        "export type X = A & B;",
    );
}

#[test]
fn duration_becomes_number() {
    check(
        r#"#[derive(Serialize)] pub struct X { #[serde(rename = "load_ms", alias = "ms", with = "millis")] load: Duration }"#,
        "export type X = {\n  load_ms: number;\n};",
    );
}

#[test]
fn array_becomes_tuple_type() {
    check(
        "#[derive(Serialize)] pub struct X { a: Vec<[u32; 2]>, b: Vec<Option<u8>> }",
        "export type X = {\n  a: [number, number][];\n  b: (number | null)[];\n};",
    );
}

#[test]
fn request_fields_with_default_are_optional() {
    let rust = |name: &str, attribute: &str| {
        format!(
            "#[derive(Deserialize)] {attribute} pub struct {name} {{ #[serde(default)] a: bool, b: bool, c: Option<u8> }}"
        )
    };
    check(&rust("XRequest", ""), "export type XRequest = {\n  a?: boolean;\n  b: boolean;\n  c?: number;\n};");
    check(&rust("X", ""), "export type X = {\n  a: boolean;\n  b: boolean;\n  c: number | null;\n};");
    check(
        &rust("XRequest", "#[serde(default)]"),
        "export type XRequest = {\n  a?: boolean;\n  b?: boolean;\n  c?: number;\n};",
    );
}

#[test]
fn enum_becomes_union_type() {
    check(
        r#"#[derive(Serialize)] #[serde(rename_all = "snake_case")] pub enum E { HuggingFace, #[serde(rename = "x")] Y }"#,
        "export type E =\n  | \"hugging_face\"\n  | \"x\";",
    );
    check(
        r#"#[derive(Serialize)] #[serde(rename_all = "snake_case")] pub enum E { Text(String), Failed { error: String } }"#,
        "export type E =\n  | { text: string }\n  | { failed: {\n      error: string;\n    } };",
    );
    check(
        r#"#[derive(Serialize)] #[serde(tag = "status", rename_all = "lowercase")] pub enum E { Copying { total: u64 }, Done(M), Off }"#,
        "export type E =\n  | ({ status: \"copying\" } & {\n      total: number;\n    })\n  | ({ status: \"done\" } & M)\n  | { status: \"off\" };",
    );
    check(
        "#[derive(Serialize)] #[serde(untagged)] pub enum E { A(bool), B(Vec<u8>) }",
        "export type E =\n  | boolean\n  | number[];",
    );
}

#[test]
fn types_without_serde_are_omitted() {
    check("#[derive(Debug)] pub struct Parser { a: [u8; 4] } pub fn f() {} type Own = u8;", "");
    check("pub struct Timestamp(pub SystemTime);", "export type Timestamp = string;");
    check(
        "pub type Changes = BTreeMap<String, Option<bool>>;",
        "export type Changes = Record<string, boolean | null>;",
    );
    check("#[derive(Serialize)] pub struct L<T> { v: Option<T> }", "export type L<T> = {\n  v: T | null;\n};");
}

#[test]
fn unsupported_attributes_are_errors() {
    let refused = |rust: &str, part: &str| {
        let error = format!("{:#}", declarations(rust).expect_err("it is not supported"));
        assert!(error.contains(part), "{rust}: {error}");
    };
    refused(r#"#[derive(Serialize)] pub struct X { #[serde(with = "hex")] a: Bytes }"#, "with = \"hex\"");
    refused(r#"#[derive(Serialize)] #[serde(rename_all = "camelCase")] pub struct X { a: u8 }"#, "camelCase");
    refused("#[derive(Serialize)] pub struct X(u8, u8);", "without a name");
    refused("#[derive(Serialize)] pub struct X { a: [u8; SIZE] }", "named types");
}
