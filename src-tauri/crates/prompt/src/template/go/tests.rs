//! Go's language as published templates use it, the conversation as they find it, and hostile templates.

use proptest::prelude::*;
use serde_json::json;

use super::super::{Language, Template, Think};
use super::*;
use crate::message::ToolCall;

const DAY: crate::Moment = crate::Moment { year: 2026, month: 3, day: 1, hour: 9, minute: 0, second: 0 };

fn talk() -> Vec<Message> {
    let said = [("system", "Be brief."), ("user", "Hi"), ("assistant", "Hello!"), ("user", "Bye")];
    said.map(|(role, text)| Message::new(role, text)).into()
}

fn render(source: &str, messages: &[Message]) -> Result<String, Error> {
    Template::go(source)?.render(&Render { messages, now: DAY, ..Render::default() })
}

fn check(source: &str, wanted: &str) {
    assert_eq!(render(source, &talk()), Ok(wanted.to_owned()), "{source:?}");
}

/// A template that does not go through messages by itself, for one question.
fn plainly(source: &str, wanted: &str) {
    let source = format!("{source}{{{{ define \"it\" }}}}{{{{ .Response }}}}{{{{ end }}}}");
    assert_eq!(render(&source, &[Message::new("user", "Hi")]), Ok(wanted.to_owned()), "{source:?}");
}

#[test]
fn the_language() {
    plainly("a {{- /* nothing */ -}} b {{ `<&\">` }} {{ 'a' }}", "ab <&\"> 97");
    plainly("{{ $x := 1 }}{{ if true }}{{ $x = 2 }}{{ $x := 3 }}{{ end }}{{ $x }}", "2");
    plainly("{{ range $e := slice \"abc\" 1 3 | len }}{{ $e }}{{ end }}", "01");
    plainly("{{ range 3 }}{{ if eq . 1 }}{{ continue }}{{ end }}<{{ . }}>{{ end }}", "<0><2>");
    plainly("{{ range 9 }}{{ if eq . 2 }}{{ break }}{{ end }}{{ . }}{{ else }}none{{ end }}", "01");
    plainly("{{ with .Prompt }}{{ . }}{{ $.Prompt | len }}{{ else }}-{{ end }}", "Hi2");
    plainly("{{ with .System }}{{ . }}{{ else with .Prompt }}<{{ . }}>{{ end }}", "<Hi>");
    plainly("{{ block \"b\" .Prompt }}[{{ . }}]{{ end }}{{ template \"b\" 1 }}", "[Hi][1]");
    plainly("{{ and 1 0 2 }}{{ or 0 \"\" 3 }}{{ not 0 }} {{ eq 1 2 1 }} {{ ne \"a\" \"b\" }}", "03true true true");
    plainly(
        "{{ lt 1 2 }} {{ le 2 2 }} {{ gt \"b\" \"a\" }} {{ ge 1.5 2.5 }} {{ eq nil nil }}",
        "true true true false true",
    );
    plainly(
        "{{ index .Prompt 0 }} {{ len .Prompt }} {{ slice .Prompt 1 }} {{ \"x\" | printf \"%s-%s\" \"a\" }}",
        "72 2 i a-x",
    );
    plainly("{{ print 1 2 \"a\" \"b\" 3 }} {{ println 1 \"a\" }}", "1 2ab3 1 a\n");
    plainly("{{ printf \"%d %s %v %q %05.2f %x %%\" 1 \"a\" true \"b\" 1.5 \"hi\" }}", "1 a true \"b\" 01.50 6869 %");
    plainly("{{ html \"<a>\" }} {{ js \"'<\" }} {{ urlquery \"a b&\" }}", "&lt;a&gt; \\'\\u003C a+b%26");
    plainly(
        "{{ .Nothing }} {{ .Suffix }} {{ .Nothing.More }} {{ json .Nothing }} {{ print nil }}",
        "<no value> <no value> <no value> null <nil>",
    );
    plainly("{{ currentDate }} {{ currentDate \"02 Jan\" }} {{ yesterdayDate }}", "2026-03-01 2026-03-01 2026-02-28");
    plainly(
        "{{ json \"<&>\\n\u{2028}é\\\"\" }} {{ json 1.5 }} {{ json true }}",
        r#""\u003c\u0026\u003e\n\u2028é\"" 1.5 true"#,
    );
    plainly("{{ 1e6 }} {{ 123456.0 }} {{ 0.00001 }} {{ 1.5 }}", "1e+06 123456 1e-05 1.5");
    plainly("{{ toTypeScriptType 1 }}", "any");
}

#[test]
fn messages_are_gathered() {
    let source = "{{ .System }}|{{ range .Messages }}{{ .Role }}={{ .Content }};{{ end }}";
    check(source, "Be brief.|system=Be brief.;user=Hi;assistant=Hello!;user=Bye;");
    let said = [
        ("user", "a"),
        ("user", "b"),
        ("tool", "1"),
        ("tool", "2"),
        ("system", "x"),
        ("user", "c"),
        ("system", "y"),
        ("system", "z"),
    ];
    let messages = said.map(|(role, text)| Message::new(role, text));
    let wanted = "x\n\ny\n\nz|user=a\n\nb;tool=1;tool=2;system=x;user=c;system=y\n\nz;";
    assert_eq!(render(source, &messages), Ok(wanted.to_owned()), "neighbours of one role, but for tools");
}

#[test]
fn exchanges_fill_three_slots() {
    let source = "{{ if .System }}<s>{{ .System }}{{ end }}<u>{{ .Prompt }}<a>{{ .Response }}<e>";
    check(source, "<s>Be brief.<u>Hi<a>Hello!<e><u>Bye<a>");
    let said = |roles: &str| -> Vec<Message> {
        roles
            .chars()
            .map(|role| match role {
                's' => Message::new("system", "S"),
                'u' => Message::new("user", "U"),
                'a' => Message::new("assistant", "A"),
                _ => Message::new("tool", "T"),
            })
            .collect()
    };
    let check = |roles: &str, wanted: &str| assert_eq!(render(source, &said(roles)), Ok(wanted.to_owned()), "{roles}");
    check("u", "<u>U<a>");
    check("ua", "<u>U<a>A");
    check("a", "<u><a>A");
    check("su", "<s>S<u>U<a>");
    check("us", "<u>U<a><e><s>S<u><a>");
    check("ut", "<u>U<a>");
    check("uauau", "<u>U<a>A<e><u>U<a>A<e><u>U<a>");
    check("", "<u><a>");
}

#[test]
fn the_last_exchange_ends_at_the_response() {
    let check = |source: &str, wanted: &str| {
        let messages = [Message::new("user", "Hi"), Message::new("assistant", "So")];
        assert_eq!(render(source, &messages), Ok(wanted.to_owned()), "{source:?}");
    };
    check("{{ .Prompt }}:", "Hi:So");
    check("{{ .Prompt }}{{ if .Response }}:{{ .Response }}<e>{{ end }}<f>", "Hi:So");
    check("{{ if .Response }}{{ .Response }}<e>{{ else }}<none>{{ end }}{{ .Prompt }}", "So");
    check("{{ with .Prompt }}{{ . }}{{ end }}{{ printf \"%s!\" .Response }}<e>", "HiSo!");
    check("{{ range 1 }}<{{ end }}{{ (print .Response) }}{{ .Prompt }}", "<So");
    check("{{ $r := .Response }}{{ $r }}", "");
}

#[test]
fn reasoning() {
    let source = "{{ range .Messages }}{{ .Role }}:{{ if .Thinking }}\n<t>\n{{ .Thinking }}\n</t>\n{{ end }}{{ .Content }};{{ end }}\
                  {{ if and .IsThinkSet .Think }}<t>{{ .ThinkLevel }}{{ end }}";
    let template = Template::go(source).expect("valid");
    assert_eq!(template.thinking_tags(), Some(("<t>", "</t>")), "the texts around it");
    assert!(template.capabilities().thinking, "so it can think");
    assert_eq!(template.language(), Language::Go, "its language");
    let messages = [Message { thinking: Some("hm".to_owned()), ..Message::new("assistant", "So.") }];
    let check = |thinking: Option<Think>, wanted: &str| {
        let said = template.render(&Render { messages: &messages, thinking: thinking.clone(), ..Render::default() });
        assert_eq!(said, Ok(format!("assistant:\n<t>\nhm\n</t>\nSo.;{wanted}")), "{thinking:?}");
    };
    check(None, "");
    check(Some(Think::Off), "");
    check(Some(Think::On), "<t>medium");
    check(Some(Think::Level("low".to_owned())), "<t>low");
    let tags = |source: &str| {
        let template = Template::go(source).expect("valid");
        template.thinking_tags().map(|(open, close)| format!("{open}{close}"))
    };
    assert_eq!(tags("<t>{{ .Thinking }}</t>"), None, "not in a loop over messages");
    assert_eq!(tags("{{ range .Tools }}<t>{{ .Thinking }}</t>{{ end }}{{ .Messages }}"), None, "in another loop");
    assert_eq!(tags("{{ range .Messages }}{{ .Thinking }}</t>{{ end }}"), None, "only one tag");
    let nested = "{{ range $i, $_ := .Messages }}{{ with .Content }}a{{ else }}<x>{{ .Thinking }}{{ .Role }}</x>{{ end }}{{ end }}";
    assert_eq!(tags(nested).as_deref(), Some("<x></x>"), "the innermost list");
}

#[test]
fn capabilities_show_in_the_names() {
    let of = |source: &str| Template::go(source).expect("valid").capabilities();
    assert_eq!(of("{{ .Prompt }}"), Capabilities::default(), "only text");
    assert!(of("{{ if $.Tools }}{{ end }}").tools && of("{{ len (slice .Tools 1) }}").tools, "wherever they stand");
    assert!(of("{{ define \"x\" }}{{ .Suffix }}{{ end }}").insert, "in definitions too");
    let calls = "{{ .Tools }}{{ range .Messages }}{{ .ToolCalls }}{{ if eq .Role \"tool\" }}{{ end }}{{ end }}";
    assert!(of(calls).tool_results && !of("{{ .Tools }}tool_response").tool_results, "calls and answers");
}

#[test]
fn filling_in() {
    let template = Template::go("{{ if .Suffix }}<p>{{ .Prompt }}<s>{{ .Suffix }}<m>{{ else }}{{ .Prompt }}{{ end }}")
        .expect("valid");
    let input = Render::default();
    assert_eq!(template.insert("a(", ")", &input), Ok("<p>a(<s>)<m>".to_owned()), "prompt and suffix");
    let other = Template::go("{{ .Prompt }}").expect("valid");
    assert_eq!(other.insert("a", "b", &input), Err(Error::NoInsert), "it has no place for a suffix");
    assert_eq!(Template::default_chatml().insert("a", "b", &input), Err(Error::NoInsert), "nor has Jinja");
}

#[test]
fn tools_and_calls_print_as_json() {
    let tools = json!([{ "type": "function", "function": {
        "name": "f", "description": "<d>",
        "parameters": { "type": "object", "required": ["b"], "properties": {
            "b": { "description": "B", "type": ["string", "null"] }, "a": { "type": "integer", "enum": [1, 2], "x": 0 },
            "c": { "anyOf": [{ "type": "array" }, { "type": "object" }] },
        } },
    } }]);
    let calls =
        vec![ToolCall { id: Some("i".into()), name: "f".into(), arguments: json!({ "b": 1e6, "a": { "z": "<" } }) }];
    let messages = [Message { tool_calls: calls, ..Message::new("assistant", "") }];
    let check = |source: &str, wanted: &str| {
        let template = Template::go(&format!("{source}{{{{ if .Messages }}}}{{{{ end }}}}")).expect("valid");
        let said = template.render(&Render { messages: &messages, tools: Some(&tools), ..Render::default() });
        assert_eq!(said, Ok(wanted.to_owned()), "{source}");
    };
    let properties = r#"{"a":{"type":"integer","enum":[1,2]},"b":{"type":["string","null"],"description":"B"},"c":{"anyOf":[{"type":"array"},{"type":"object"}]}}"#;
    let tool = format!(
        r#"{{"type":"function","function":{{"name":"f","description":"\u003cd\u003e","parameters":{{"type":"object","required":["b"],"properties":{properties}}}}}}}"#
    );
    check("{{ .Tools }}", &format!("[{tool}]"));
    check("{{ range .Tools }}{{ . }}{{ printf \" %s\" . }}{{ end }}", &format!("{tool} {tool}"));
    check("{{ range .Tools }}{{ json .Function.Parameters.Properties }}{{ end }}", properties);
    check("{{ (index .Tools 0).Function.Name }} {{ (index .Tools 0).Function.Parameters.Required }}", "f [b]");
    check(
        "{{ range .Tools }}{{ range $k, $v := .Function.Parameters.Properties }}{{ $k }}: {{ toTypeScriptType $v }};{{ end }}{{ end }}",
        "a: number;b: string | null;c: any[] | Record<string, any>;",
    );
    check(
        "{{ range .Messages }}{{ range .ToolCalls }}{{ .ID }} {{ .Function.Index }} {{ .Function.Arguments }}{{ end }}{{ end }}",
        r#"i 0 {"a":{"z":"\u003c"},"b":1000000}"#,
    );
    check(
        "{{ range .Messages }}{{ range .ToolCalls }}{{ range $k, $v := .Function.Arguments }}{{ $k }}={{ $v }} {{ end }}{{ end }}{{ end }}",
        "a=map[z:<] b=1e+06 ",
    );
}

#[test]
fn errors_have_a_line() {
    let check = |source: &str, wanted: &str| {
        let error = render(source, &talk()).expect_err(source).to_string();
        assert!(error.contains(wanted), "{source:?}: {error}");
    };
    check("a\n{{ if }}{{ end }}", "not valid: line 2");
    check("{{ nothing .Prompt }}", "not valid: line 1: there is no function \"nothing\"");
    check("\n\n{{ $x }}{{ .Prompt }}", "failed: line 3: undefined variable: $x");
    check("{{ .Prompt }}\n{{ template \"x\" . }}", "failed: line 2: undefined template: x");
    check("{{ if true }}\n{{ lt .Prompt 1 }}{{ end }}", "failed: line 2: string, int cannot be compared");
    check("{{ index .Prompt 99 }}", "failed: line 1: ");
    check("{{ .Prompt.More }}", "failed: line 1: ");
    check("{{ range .Prompt }}{{ end }}", "failed: line 1: cannot range over string");
    check("{{ define \"a\" }}x{{ end }}\n{{ define \"a\" }}y{{ end }}", "line 2: \"a\" is defined twice");
    check("{{ if .Prompt }}", "line 1: {{if}} is not ended");
    check("{{ `", "line 1: an action is not ended");
}

#[test]
fn hostile_templates_end() {
    let limit = |source: &str, what: &'static str| {
        let got = render(source, &talk());
        let shown: String = source.chars().take(120).collect();
        assert_eq!(got.map(|text| text.len()), Err(Error::TooLarge { what }), "{shown}");
    };
    limit("{{ range 1000000000 }}{{ end }}", "steps");
    limit("{{ range 1000 }}{{ range 1000 }}{{ range 1000 }}{{ end }}{{ end }}{{ end }}", "steps");
    limit("{{ range 9000000 }}{{ and 1 1 1 1 1 1 1 1 }}{{ end }}", "steps");
    limit(&format!("{{{{ range 999999 }}}}{{{{ $x := and {} }}}}{{{{ end }}}}", "1 ".repeat(50_000)), "steps");
    limit(&format!("{{{{ range 999999 }}}}{{{{ $x := ${} }}}}{{{{ end }}}}", ".a".repeat(50_000)), "steps");
    limit("{{ define \"a\" }}{{ template \"a\" . }}{{ end }}{{ template \"a\" . }}", "depth");
    limit("{{ define \"a\" }}{{ range 2 }}{{ template \"a\" . }}{{ end }}{{ end }}{{ template \"a\" . }}", "depth");
    let nested = format!("{}1{}", "(".repeat(90), ")".repeat(90));
    limit(
        &format!("{{{{ define \"a\" }}}}{{{{ template \"a\" {nested} }}}}{{{{ end }}}}{{{{ template \"a\" . }}}}"),
        "depth",
    );
    let twice: String = (1..60)
        .map(|n| format!("{{{{ define \"{n}\" }}}}{0}{0}{{{{ end }}}}", format!("{{{{ template \"{}\" . }}}}", n - 1)))
        .collect();
    limit(&format!("{{{{ define \"0\" }}}}{{{{ end }}}}{twice}{{{{ template \"59\" . }}}}"), "steps");
    limit(&format!("{{{{ range 1000000 }}}}{}{{{{ end }}}}", "x".repeat(1000)), "output");
    limit(&"{{ if true }}".repeat(101), "depth");
    limit(&format!("{{{{ if 1 }}}}{}{{{{ end }}}}", "{{ else if 1 }}".repeat(8_000)), "depth");
    limit(&" ".repeat(MAX_SOURCE_BYTES + 1), "source");
    let nested = format!("{{{{ {}1{} }}}}", "(".repeat(60_000), ")".repeat(60_000));
    assert!(render(&nested, &talk()).is_err(), "a deep expression is an error");
    let deep = format!("{}x{}", "{{ if 1 }}{{ with 1 }}{{ range 1 }}".repeat(33), "{{ end }}".repeat(99));
    check(&format!("{deep}{{{{ define \"r\" }}}}{{{{ .Response }}}}{{{{ end }}}}"), &"x".repeat(2));
}

/// Texts that double with every turn, or would be gigabytes at once.
#[test]
fn memory_is_bounded() {
    let growing = |step: &str| format!("{{{{ $x := \"<ab>\" }}}}{{{{ range 99 }}}}{step}{{{{ end }}}}{{{{ len $x }}}}");
    let big = "{{ $x := printf \"%060000d\" 1 }}{{ range 8 }}{{ $x = print $x $x }}{{ end }}";
    for source in [
        growing("{{ $x = print $x $x }}"),
        growing("{{ $x = println $x $x }}"),
        growing("{{ $x = printf \"%s%s\" $x $x }}"),
        growing("{{ $x = printf \"%[1]s%[1]s\" $x }}"),
        growing("{{ $x = printf \"%q\" (print $x $x) }}"),
        growing("{{ $x = print (html $x) $x }}"),
        growing("{{ $x = print (js $x) $x }}"),
        growing("{{ $x = print (urlquery $x) $x }}"),
        growing("{{ $x = json (print $x $x) }}"),
        format!("{{{{ printf `{}` 1 }}}}", "%099999999d".repeat(9_000)),
        format!("{{{{ printf `{}` 65535 1 }}}}", "%[1]*[2]d".repeat(9_000)),
        format!("{big}{{{{ $y := $x }}}}{{{{ range 100000 }}}}{{{{ $z := eq $x $y }}}}{{{{ end }}}}"),
        format!("{big}{{{{ range 100000 }}}}{{{{ $z := slice $x 1 }}}}{{{{ end }}}}"),
        format!("{big}{{{{ $x }}}}{{{{ $x }}}}"),
    ] {
        let got = render(&source, &talk());
        let shown: String = source.chars().take(120).collect();
        assert!(matches!(got, Err(Error::TooLarge { .. })), "{shown}: {:?}", got.map(|text| text.len()));
    }
}

proptest! {
    #[test]
    fn any_template_is_taken_or_refused(source in "(\\{\\{|\\}\\}|\\{\\{-|-\\}\\}|if|range|with|end|else|define|template|block|break|printf|slice|index|\"%s\"|\"a\"|\\$x|:=|=|,|\\.Messages|\\.Response|[|.()'`$/* a-z0-9é\\n-]){0,25}") {
        let _ = render(&source, &talk());
    }

    #[test]
    fn any_message_renders(role in any::<String>(), content in any::<String>()) {
        let messages = [Message::new(role.clone(), content.clone())];
        let text = render("{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}", &messages);
        prop_assert_eq!(text, Ok(format!("<{role}>{content}")));
    }
}
