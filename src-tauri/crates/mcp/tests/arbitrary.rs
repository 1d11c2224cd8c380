//! Arbitrary configurations: no input panics, and accepted servers are valid.

use cairn_mcp::parse_servers;
use proptest::prelude::*;

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
    fn accepted_configurations_are_valid(text in prop_oneof![configurations(), "\\PC{0,40}"]) {
        for server in parse_servers(&text).into_iter().flatten() {
            prop_assert_eq!(server.config.check(), Ok(()));
        }
    }
}
