//! The features of Go's language that published templates use, the values of a conversation, and hostile templates.

use jiff::civil::datetime;
use proptest::prelude::*;
use serde_json::json;

use super::super::{Language, Template, ThinkMode};
use super::*;
use crate::answer::Syntax;
use crate::message::ToolCall;

fn conversation() -> Vec<Message> {
    let messages = [("system", "Be brief."), ("user", "Hi"), ("assistant", "Hello!"), ("user", "Bye")];
    messages.map(|(role, text)| Message::new(role, text)).into()
}

fn render(source: &str, messages: &[Message]) -> Result<String, Error> {
    Template::go(source)?.render(&RenderInput {
        messages,
        now: datetime(2026, 3, 1, 9, 0, 0, 0).into(),
        ..RenderInput::default()
    })
}

fn check(source: &str, wanted: &str) {
    assert_eq!(render(source, &conversation()), Ok(wanted.to_owned()), "{source:?}");
}

/// Checks a template without a loop over messages, for one user message.
fn check_exchange(source: &str, wanted: &str) {
    let source = format!("{source}{{{{ define \"it\" }}}}{{{{ .Response }}}}{{{{ end }}}}");
    assert_eq!(render(&source, &[Message::new("user", "Hi")]), Ok(wanted.to_owned()), "{source:?}");
}

#[test]
fn language_features_render() {
    check_exchange("a {{- /* nothing */ -}} b {{ `<&\">` }} {{ 'a' }}", "ab <&\"> 97");
    check_exchange("{{ $x := 1 }}{{ if true }}{{ $x = 2 }}{{ $x := 3 }}{{ end }}{{ $x }}", "2");
    check_exchange("{{ range $e := slice \"abc\" 1 3 | len }}{{ $e }}{{ end }}", "01");
    check_exchange("{{ range 3 }}{{ if eq . 1 }}{{ continue }}{{ end }}<{{ . }}>{{ end }}", "<0><2>");
    check_exchange("{{ range 9 }}{{ if eq . 2 }}{{ break }}{{ end }}{{ . }}{{ else }}none{{ end }}", "01");
    check_exchange("{{ with .Prompt }}{{ . }}{{ $.Prompt | len }}{{ else }}-{{ end }}", "Hi2");
    check_exchange("{{ with .System }}{{ . }}{{ else with .Prompt }}<{{ . }}>{{ end }}", "<Hi>");
    check_exchange("{{ block \"b\" .Prompt }}[{{ . }}]{{ end }}{{ template \"b\" 1 }}", "[Hi][1]");
    check_exchange(
        "{{ and 1 0 2 }}{{ or 0 \"\" 3 }}{{ not 0 }} {{ eq 1 2 1 }} {{ ne \"a\" \"b\" }}",
        "03true true true",
    );
    check_exchange(
        "{{ lt 1 2 }} {{ le 2 2 }} {{ gt \"b\" \"a\" }} {{ ge 1.5 2.5 }} {{ eq nil nil }}",
        "true true true false true",
    );
    check_exchange(
        "{{ index .Prompt 0 }} {{ len .Prompt }} {{ slice .Prompt 1 }} {{ \"x\" | printf \"%s-%s\" \"a\" }}",
        "72 2 i a-x",
    );
    check_exchange("{{ print 1 2 \"a\" \"b\" 3 }} {{ println 1 \"a\" }}", "1 2ab3 1 a\n");
    check_exchange(
        "{{ printf \"%d %s %v %q %05.2f %x %%\" 1 \"a\" true \"b\" 1.5 \"hi\" }}",
        "1 a true \"b\" 01.50 6869 %",
    );
    check_exchange("{{ html \"<a>\" }} {{ js \"'<\" }} {{ urlquery \"a b&\" }}", "&lt;a&gt; \\'\\u003C a+b%26");
    check_exchange(
        "{{ .Nothing }} {{ .Suffix }} {{ .Nothing.More }} {{ json .Nothing }} {{ print nil }}",
        "<no value> <no value> <no value> null <nil>",
    );
    check_exchange(
        "{{ currentDate }} {{ currentDate \"02 Jan\" }} {{ yesterdayDate }}",
        "2026-03-01 2026-03-01 2026-02-28",
    );
    check_exchange(
        "{{ json \"<&>\\n\u{2028}é\\\"\" }} {{ json 1.5 }} {{ json true }}",
        r#""\u003c\u0026\u003e\n\u2028é\"" 1.5 true"#,
    );
    check_exchange("{{ 1e6 }} {{ 123456.0 }} {{ 0.00001 }} {{ 1.5 }}", "1e+06 123456 1e-05 1.5");
    check_exchange("{{ toTypeScriptType 1 }}", "any");
}

#[test]
fn consecutive_messages_of_one_role_are_merged() {
    let source = "{{ .System }}|{{ range .Messages }}{{ .Role }}={{ .Content }};{{ end }}";
    check(source, "Be brief.|system=Be brief.;user=Hi;assistant=Hello!;user=Bye;");
    let turns = [
        ("user", "a"),
        ("user", "b"),
        ("tool", "1"),
        ("tool", "2"),
        ("system", "x"),
        ("user", "c"),
        ("system", "y"),
        ("system", "z"),
    ];
    let messages = turns.map(|(role, text)| Message::new(role, text));
    let wanted = "x\n\ny\n\nz|user=a\n\nb;tool=1;tool=2;system=x;user=c;system=y\n\nz;";
    assert_eq!(render(source, &messages), Ok(wanted.to_owned()), "all roles except tools are merged");
}

#[test]
fn template_runs_once_per_exchange() {
    let source = "{{ if .System }}<s>{{ .System }}{{ end }}<u>{{ .Prompt }}<a>{{ .Response }}<e>";
    check(source, "<s>Be brief.<u>Hi<a>Hello!<e><u>Bye<a>");
    let messages = |roles: &str| -> Vec<Message> {
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
    let check =
        |roles: &str, wanted: &str| assert_eq!(render(source, &messages(roles)), Ok(wanted.to_owned()), "{roles}");
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
fn last_exchange_ends_at_response() {
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
fn thinking_values_and_tags() {
    let source = "{{ range .Messages }}{{ .Role }}:{{ if .Thinking }}\n<t>\n{{ .Thinking }}\n</t>\n{{ end }}{{ .Content }};{{ end }}\
                  {{ if and .IsThinkSet .Think }}<t>{{ .ThinkLevel }}{{ end }}";
    let template = Template::go(source).expect("valid");
    assert_eq!(template.thinking_tags(), Some(("<t>", "</t>")), "the texts around `.Thinking`");
    assert!(template.capabilities().thinking, "tags imply thinking");
    assert_eq!(template.language(), Language::Go, "the language");
    let messages = [Message { thinking: Some("hm".to_owned()), ..Message::new("assistant", "So.") }];
    let check = |thinking: Option<ThinkMode>, wanted: &str| {
        let text =
            template.render(&RenderInput { messages: &messages, thinking: thinking.clone(), ..RenderInput::default() });
        assert_eq!(text, Ok(format!("assistant:\n<t>\nhm\n</t>\nSo.;{wanted}")), "{thinking:?}");
    };
    check(None, "");
    check(Some(ThinkMode::Off), "");
    check(Some(ThinkMode::On), "<t>medium");
    check(Some(ThinkMode::Level("low".to_owned())), "<t>low");
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
fn answer_format_follows_text_before_tool_calls() {
    let of = |source: &str| Template::go(source).expect("valid").answer_format().tool_calls;
    let after = |tag: &str| Some(Syntax::After(tag.to_owned()));
    assert_eq!(of("{{ .Messages }}"), None, "no calls");
    assert_eq!(of("{{ if .ToolCalls }} <call>\n{\"name\": 1}{{ end }}"), after("<call>"), "up to a brace");
    assert_eq!(of("{{ if .ToolCalls }}Calls: [{{ range .ToolCalls }}{ {{ end }}]{{ end }}"), after("Calls:"), "a list");
    let elsewhere = "{{ range $m := .Messages }}{{ if .Content }}a{{ else if $m.ToolCalls }}\n{{- range .ToolCalls }}<c>{{ end }}{{ end }}{{ end }}";
    assert_eq!(of(elsewhere), after("<c>"), "white space is no text");
    assert_eq!(
        of("{{ define \"c\" }}<d>{{ end }}{{ range .ToolCalls }}{{ template \"c\" . }}{{ end }}"),
        after("<d>"),
        "in a called template"
    );
    assert_eq!(
        of("{{ define \"c\" }}{{ template \"c\" . }}{{ end }}{{ range .ToolCalls }}{{ template \"c\" . }}{{ end }}"),
        Some(Syntax::Llama),
        "a template that calls itself"
    );
    assert_eq!(of("{{ if .ToolCalls }}{\"name\": 1}{{ end }}"), Some(Syntax::Llama), "a brace");
    assert_eq!(of("{{ if .ToolCalls }}<tool_call>\n{{ end }}"), Some(Syntax::Hermes), "a tag of a syntax");
    assert_eq!(of("{{ if .ToolCalls }}[TOOL_CALLS] [{{ end }}"), Some(Syntax::Mistral), "a token and a bracket");
}

#[test]
fn capabilities_are_detected_by_field_names() {
    let of = |source: &str| Template::go(source).expect("valid").capabilities();
    assert_eq!(of("{{ .Prompt }}"), Capabilities::default(), "only text");
    assert!(
        of("{{ if $.Tools }}{{ end }}").tools && of("{{ len (slice .Tools 1) }}").tools,
        "in conditions and arguments"
    );
    assert!(of("{{ define \"x\" }}{{ .Suffix }}{{ end }}").insert, "in definitions too");
    let calls = "{{ .Tools }}{{ range .Messages }}{{ .ToolCalls }}{{ if eq .Role \"tool\" }}{{ end }}{{ end }}";
    assert!(of(calls).tool_results && !of("{{ .Tools }}tool_response").tool_results, "tool calls and results");
}

#[test]
fn insert_renders_prompt_and_suffix() {
    let template = Template::go("{{ if .Suffix }}<p>{{ .Prompt }}<s>{{ .Suffix }}<m>{{ else }}{{ .Prompt }}{{ end }}")
        .expect("valid");
    let input = RenderInput::default();
    assert_eq!(template.insert("a(", ")", &input), Ok("<p>a(<s>)<m>".to_owned()), "prompt and suffix");
    let other = Template::go("{{ .Prompt }}").expect("valid");
    assert_eq!(other.insert("a", "b", &input), Err(Error::InsertUnsupported), "no `.Suffix` in the template");
    assert_eq!(
        Template::default_chatml().insert("a", "b", &input),
        Err(Error::InsertUnsupported),
        "Jinja cannot insert"
    );
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
        let text = template.render(&RenderInput { messages: &messages, tools: Some(&tools), ..RenderInput::default() });
        assert_eq!(text, Ok(wanted.to_owned()), "{source}");
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
fn template_errors_contain_line_number() {
    let check = |source: &str, wanted: &str| {
        let error = render(source, &conversation()).expect_err(source).to_string();
        assert!(error.contains(wanted), "{source:?}: {error}");
    };
    check("a\n{{ if }}{{ end }}", "not valid: line 2");
    check("{{ nothing .Prompt }}", "not valid: line 1: there is no function \"nothing\"");
    check("\n\n{{ $x }}{{ .Prompt }}", "not valid: line 3: there is no variable $x");
    check("{{ .Prompt }}\n{{ template \"x\" . }}", "failed: line 2: there is no template \"x\"");
    check("{{ if true }}\n{{ lt .Prompt 1 }}{{ end }}", "failed: line 2: string, int cannot be compared");
    check("{{ index .Prompt 99 }}", "failed: line 1: ");
    check("{{ .Prompt.More }}", "failed: line 1: ");
    check("{{ range .Prompt }}{{ end }}", "failed: line 1: range cannot iterate over string");
    check("{{ define \"a\" }}x{{ end }}\n{{ define \"a\" }}y{{ end }}", "line 2: \"a\" is defined twice");
    check("{{ if .Prompt }}", "line 1: {{if}} is not ended");
    check("{{ `", "line 1: an action is not ended");
}

#[test]
fn hostile_templates_hit_limits() {
    let limit = |source: &str, what: &'static str| {
        let got = render(source, &conversation());
        let shown: String = source.chars().take(120).collect();
        assert_eq!(got.map(|text| text.len()), Err(Error::TooLarge { what }), "{shown}");
    };
    limit("{{ range 1000000000 }}{{ end }}", "steps");
    limit("{{ range 1000 }}{{ range 1000 }}{{ range 1000 }}{{ end }}{{ end }}{{ end }}", "steps");
    limit("{{ range 9000000 }}{{ and 1 1 1 1 1 1 1 1 }}{{ end }}", "steps");
    limit(&format!("{{{{ range 999999 }}}}{{{{ $x := and {} }}}}{{{{ end }}}}", "1 ".repeat(50_000)), "steps");
    limit(&format!("{{{{ range 999999 }}}}{{{{ $x := and {} }}}}{{{{ end }}}}", "$ ".repeat(50_000)), "steps");
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
    assert!(render(&nested, &conversation()).is_err(), "a deep expression is an error");
    let deep = format!("{}x{}", "{{ if 1 }}{{ with 1 }}{{ range 1 }}".repeat(33), "{{ end }}".repeat(99));
    check(&format!("{deep}{{{{ define \"r\" }}}}{{{{ .Response }}}}{{{{ end }}}}"), &"x".repeat(2));
}

/// Texts that double in every turn, or would be gigabytes at once.
#[test]
fn hostile_templates_cannot_exhaust_memory() {
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
        format!("{{{{ printf `{}` 1 }}}}", "%0999999d".repeat(9_000)),
        format!("{{{{ printf `{}` 65535 1 }}}}", "%[1]*[2]d".repeat(9_000)),
        format!("{big}{{{{ $y := $x }}}}{{{{ range 100000 }}}}{{{{ $z := eq $x $y }}}}{{{{ end }}}}"),
        format!("{big}{{{{ range 100000 }}}}{{{{ $z := slice $x 1 }}}}{{{{ end }}}}"),
        format!("{big}{{{{ $x }}}}{{{{ $x }}}}"),
    ] {
        let got = render(&source, &conversation());
        let shown: String = source.chars().take(120).collect();
        assert!(matches!(got, Err(Error::TooLarge { .. })), "{shown}: {:?}", got.map(|text| text.len()));
    }
}

proptest! {
    #[test]
    fn random_template_never_panics(source in "(\\{\\{|\\}\\}|\\{\\{-|-\\}\\}|if|range|with|end|else|define|template|block|break|printf|slice|index|\"%s\"|\"a\"|\\$x|:=|=|,|\\.Messages|\\.Response|[|.()'`$/* a-z0-9é\\n-]){0,25}") {
        let _ = render(&source, &conversation());
    }

    #[test]
    fn random_message_renders(role in any::<String>(), content in any::<String>()) {
        let messages = [Message::new(role.clone(), content.clone())];
        let text = render("{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}", &messages);
        prop_assert_eq!(text, Ok(format!("<{role}>{content}")));
    }
}
