//! Valid, formatted and invalid Modelfiles.

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Parses a text. Returns its commands, one per line with Rust-quoted arguments, or the error.
fn parsed(text: &[u8]) -> String {
    match Modelfile::parse(text) {
        Ok(file) => {
            let line = |command: &Command| match command {
                Command::Parameter { name, value } => format!("PARAMETER {name} {value:?}\n"),
                Command::Message { role, content } => format!("MESSAGE {} {content:?}\n", role.name()),
                Command::From(text)
                | Command::License(text)
                | Command::Template(text)
                | Command::System(text)
                | Command::Adapter(text)
                | Command::Draft(text)
                | Command::Renderer(text)
                | Command::Parser(text)
                | Command::Requires(text) => format!("{} {text:?}\n", command.name()),
            };
            file.commands.iter().map(line).collect()
        }
        Err(error) => error.to_string(),
    }
}

fn check(text: &str, expected: &str) {
    assert_eq!(parsed(text.as_bytes()), expected, "of {text:?}");
}

#[test]
fn bare_and_quoted_arguments_are_parsed() {
    check("FROM  llama3  \n", "FROM \"llama3\"\n");
    check("from llama3", "FROM \"llama3\"\n");
    check("FROM\tx # y\r\n", "FROM \"x # y\"\n");
    check("SYSTEM \" a \"\n", "SYSTEM \" a \"\n");
    check("SYSTEM \"a\nb\"\nFROM x", "SYSTEM \"a\\nb\"\nFROM \"x\"\n");
    check("SYSTEM \"\"\"a \"b\"\n\n# c\n\"\"\"\nFROM x", "SYSTEM \"a \\\"b\\\"\\n\\n# c\\n\"\nFROM \"x\"\n");
    check("SYSTEM \"\"\"\"\"\"\nSYSTEM \"\"\nSYSTEM  \n", "SYSTEM \"\"\nSYSTEM \"\"\nSYSTEM \"\"\n");
    check("SYSTEM say \"hi\"\n", "SYSTEM \"say \\\"hi\\\"\"\n");
    check("SYSTEM \"a\" and \"b\"\n", "SYSTEM \"a\\\" and \\\"b\"\n");
    check("SYSTEM \"\"\"x\"\"\"\"\n", "SYSTEM \"x\\\"\"\n");
    check("SYSTEM \\n 'a'\n", "SYSTEM \"\\\\n 'a'\"\n");
}

#[test]
fn all_commands_are_parsed() {
    check("PARAMETER stop \"<|x|>\"\nparameter num_ctx 4", "PARAMETER stop \"<|x|>\"\nPARAMETER num_ctx \"4\"\n");
    check("MESSAGE user hi: there\n", "MESSAGE user \"hi: there\"\n");
    check(
        "  # a\n#b\n\n\tADAPTER a\nDRAFT d\nRENDERER r\nPARSER p\nREQUIRES 0.1\nLICENSE \"\"\"l\nl\"\"\"",
        "ADAPTER \"a\"\nDRAFT \"d\"\nRENDERER \"r\"\nPARSER \"p\"\nREQUIRES \"0.1\"\nLICENSE \"l\\nl\"\n",
    );
}

#[test]
fn byte_order_mark_selects_the_encoding() {
    let text = "FROM ü🦙";
    let wide = |unit: fn(u16) -> [u8; 2]| -> Vec<u8> {
        [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(unit).collect()
    };
    for bytes in [wide(u16::to_le_bytes), wide(u16::to_be_bytes), format!("\u{feff}{text}").into_bytes()] {
        assert_eq!(parsed(&bytes), "FROM \"ü🦙\"\n", "of {bytes:?}");
    }
    assert_eq!(parsed(b"FROM \xff"), "FROM \"\u{fffd}\"\n", "invalid UTF-8 is replaced");
}

#[test]
fn syntax_errors_name_the_line() {
    let commands = "command must be one of \"from\", \"license\", \"template\", \"system\", \"adapter\", \"draft\", \
                    \"renderer\", \"parser\", \"parameter\", \"message\", or \"requires\"";
    check("FROM x\n\nBAD y\n", &format!("(line 3): {commands}"));
    check("FROM x\nFROM: y\n", &format!("(line 2): {commands}"));
    check("\"x\"", &format!("(line 1): {commands}"));
    let roles = "message role must be one of \"system\", \"user\", or \"assistant\"";
    check("SYSTEM \"a\nb\"\nMESSAGE tool x", &format!("(line 3): {roles}"));
    check("MESSAGE User x", &format!("(line 1): {roles}"));
    check("FROM x\nSYSTEM \"\"\"a\nb\"\"", "(line 2): unexpected EOF");
    check("SYSTEM \"a", "(line 1): unexpected EOF");
    check("FROM", "(line 1): unexpected EOF");
    check("PARAMETER stop", "(line 1): unexpected EOF");
    check("MESSAGE user", "(line 1): unexpected EOF");
}

#[test]
fn arguments_are_quoted_only_where_necessary() {
    let check = |command: Command, expected: &str| {
        let file = Modelfile { commands: vec![command] };
        assert_eq!(file.to_string(), expected, "formatted");
        assert_eq!(Modelfile::parse(expected.as_bytes()).as_ref(), Ok(&file), "parsed: {expected}");
    };
    check(Command::From("llama3:8b".to_owned()), "FROM llama3:8b\n");
    check(Command::System(" a".to_owned()), "SYSTEM \" a\"\n");
    check(Command::System("a\nb".to_owned()), "SYSTEM \"a\nb\"\n");
    check(Command::System("\"a\"\nb".to_owned()), "SYSTEM \"\"\"\"a\"\nb\"\"\"\n");
    check(Command::System("say \"a\"".to_owned()), "SYSTEM say \"a\"\n");
    check(Command::System("\"a\" b".to_owned()), "SYSTEM \"\"\"\"a\" b\"\"\"\n");
    check(Command::System(String::new()), "SYSTEM \"\"\n");
    check(Command::Parameter { name: "stop".to_owned(), value: "\n".to_owned() }, "PARAMETER stop \"\n\"\n");
    check(Command::Message { role: Role::User, content: "hi".to_owned() }, "MESSAGE user hi\n");
}

fn recipe(text: &str) -> Result<Recipe, String> {
    Recipe::of(&Modelfile::parse(text.as_bytes()).expect("valid syntax")).map_err(|error| error.to_string())
}

#[test]
fn parameters_get_the_types_of_options() {
    let text = "FROM x\nPARAMETER num_ctx 8\nPARAMETER stop a\nPARAMETER stop b\nPARAMETER temperature 0.7\n\
                PARAMETER use_mmap T\nPARAMETER num_ctx 9\nPARAMETER mirostat 1\n";
    let recipe = recipe(text).expect("valid Modelfile");
    let expected = json!({"num_ctx": 9, "stop": ["a", "b"], "temperature": 0.7, "use_mmap": true});
    assert_eq!(serde_json::Value::Object(recipe.parameters), expected, "the last value counts; all stops are kept");
    assert_eq!(recipe.warnings, ["parameter mirostat is deprecated"], "ignored parameters are reported");
}

#[test]
fn repeated_single_valued_command_uses_last_value() {
    let recipe = recipe(
        "FROM a\nFROM b\nADAPTER c\nADAPTER d\nLICENSE e\nLICENSE f\nTEMPLATE g\nTEMPLATE h\nSYSTEM i\nSYSTEM j\n\
         MESSAGE user k\nMESSAGE assistant l\nREQUIRES v0.14.0\nRENDERER m\nPARSER n\nDRAFT o\n",
    );
    let recipe = recipe.expect("valid Modelfile");
    assert_eq!((recipe.from, recipe.adapters), (vec!["a".into(), "b".into()], vec!["c".into(), "d".into()]), "files");
    assert_eq!(recipe.licenses, ["e", "f"], "all licences are kept");
    assert_eq!((recipe.template.as_deref(), recipe.system.as_deref()), (Some("h"), Some("j")), "the last commands");
    assert_eq!(recipe.messages, [(Role::User, "k".into()), (Role::Assistant, "l".into())], "messages in order");
    assert_eq!(recipe.requires.as_deref(), Some("0.14.0"), "the `v` is removed");
    let rest = (recipe.renderer.as_deref(), recipe.parser.as_deref(), recipe.draft.as_deref());
    assert_eq!(rest, (Some("m"), Some("n"), Some("o")), "renderer, parser and draft");
}

#[test]
fn semantic_errors_are_rejected() {
    let check = |text: &str, expected: &str| assert_eq!(recipe(text).err().as_deref(), Some(expected), "of {text:?}");
    check("SYSTEM x", "no FROM line");
    check("FROM  \n", "no FROM line");
    check("FROM x\nPARAMETER tfs_z 1", "unknown parameter 'tfs_z'");
    check("FROM x\nPARAMETER num_ctx big", "invalid int value \"big\" for parameter 'num_ctx'");
    check("FROM x\nPARAMETER top_p 1e99", "invalid float value \"1e99\" for parameter 'top_p'");
    check("FROM x\nPARAMETER use_mmap yes", "invalid bool value \"yes\" for parameter 'use_mmap'");
    for version in ["x", "1.2.3.4", "01.2.3", "1.2-a", "1.2.3-", "1.2.3-01", "1.2.3+", ""] {
        let expected = format!("requires must be a valid semver (e.g. 0.14.0), not {version:?}");
        check(&format!("FROM x\nREQUIRES {version}\n"), &expected);
    }
    for version in ["0", "1.2", "v1.2.3", "1.2.3-rc.1+b.07", "1.0.0--"] {
        assert!(recipe(&format!("FROM x\nREQUIRES {version}\n")).is_ok(), "{version} is a version");
    }
}

/// Text that the language can express: no line except the last ends with three quotes.
fn expressible_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        8 => "[a-z ]{0,6}".boxed(),
        2 => Just("\"".to_owned()).boxed(),
        2 => Just("\n".to_owned()).boxed(),
        1 => Just("\r\n".to_owned()).boxed(),
        1 => Just("\"\"\"".to_owned()).boxed(),
        1 => Just("#".to_owned()).boxed(),
        1 => any::<char>().prop_map(String::from).boxed(),
    ];
    let text = prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat());
    text.prop_filter("a line ends with three quotes", |text| {
        let lines: Vec<&str> = text.split(['\r', '\n']).collect();
        lines.split_last().is_none_or(|(_, before)| before.iter().all(|line| !line.trim().ends_with("\"\"\"")))
    })
}

fn any_command() -> impl Strategy<Value = Command> {
    prop_oneof![
        expressible_text().prop_map(Command::From),
        expressible_text().prop_map(Command::License),
        expressible_text().prop_map(Command::Template),
        expressible_text().prop_map(Command::System),
        expressible_text().prop_map(Command::Adapter),
        expressible_text().prop_map(Command::Draft),
        expressible_text().prop_map(Command::Renderer),
        expressible_text().prop_map(Command::Parser),
        expressible_text().prop_map(Command::Requires),
        ("[a-z0-9_]{1,8}", expressible_text()).prop_map(|(name, value)| Command::Parameter { name, value }),
        (0usize..3, expressible_text())
            .prop_map(|(role, content)| Command::Message { role: Role::ALL[role].0, content }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn modelfile_round_trips(commands in prop::collection::vec(any_command(), 0..5)) {
        let file = Modelfile { commands };
        let text = file.to_string();
        prop_assert_eq!(Modelfile::parse(text.as_bytes()), Ok(file), "formatted as {:?}", text);
    }

    #[test]
    fn modelfile_parser_never_panics_on_arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(file) = Modelfile::parse(&bytes) {
            let _ = Recipe::of(&file);
        }
    }

    #[test]
    fn arbitrary_words_do_not_panic(words in prop::collection::vec(prop_oneof![
        Just("FROM "), Just("PARAMETER "), Just("MESSAGE "), Just("user "), Just("stop "), Just("\""), Just("\"\"\""),
        Just("\n"), Just("\r"), Just(" "), Just("#"), Just("x"), Just("\u{feff}"), Just("ü"), Just("REQUIRES "), Just("1.2"),
    ], 0..20)) {
        if let Ok(file) = Modelfile::parse(words.concat().as_bytes()) {
            let _ = Recipe::of(&file);
        }
    }
}
