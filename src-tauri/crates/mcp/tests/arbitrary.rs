//! Arbitrary pages and configurations: no input panics, and accepted servers are valid.

use cairn_mcp::{html_to_text, parse_servers};
use proptest::prelude::*;

/// Pieces of pages, between which arbitrary text is put.
const PIECES: [&str; 24] = [
    "<",
    ">",
    "</",
    "<!--",
    "-->",
    "<a href=",
    "<a href='x",
    "\"",
    "'",
    "=",
    "<script>",
    "</script>",
    "<head>",
    "</head>",
    "<title",
    "<pre>",
    "</pre>",
    "<li",
    "<td>",
    "&",
    "&#x1F600;",
    "&#99999999;",
    "é",
    "\u{a0}",
];

fn pages() -> impl Strategy<Value = String> {
    let piece = prop_oneof![proptest::sample::select(&PIECES[..]).prop_map(str::to_owned), "\\PC{0,4}"];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn configurations() -> impl Strategy<Value = String> {
    let key = proptest::sample::select(vec![
        "mcpServers",
        "servers",
        "a",
        "command",
        "args",
        "url",
        "env",
        "headers",
        "type",
    ]);
    let leaf = prop_oneof![
        Just("1".to_owned()),
        Just("null".to_owned()),
        Just("\"stdio\"".to_owned()),
        Just("\"https://example.com/mcp\"".to_owned()),
        Just("[\"x\"]".to_owned()),
        "\"[a-z$ {}/]{0,8}\"",
    ];
    leaf.prop_recursive(4, 32, 6, move |inner| {
        proptest::collection::vec((key.clone(), inner), 0..6).prop_map(|entries| {
            let entries: Vec<String> = entries.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
            format!("{{{}}}", entries.join(","))
        })
    })
}

proptest! {
    #[test]
    fn page_of_any_text_ends_with_text(page in pages()) {
        let (title, text) = html_to_text(&page, None);
        // A link has its URL, and a block at most a few characters of Markdown, but nothing is repeated.
        prop_assert!(text.len() + title.len() <= page.len() * 8 + 16, "{page:?}");
    }

    #[test]
    fn accepted_configurations_are_valid(text in prop_oneof![configurations(), "\\PC{0,40}"]) {
        for server in parse_servers(&text).into_iter().flatten() {
            prop_assert_eq!(server.config.check(), Ok(()));
        }
    }
}
