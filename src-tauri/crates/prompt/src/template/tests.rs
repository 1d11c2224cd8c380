//! Templates with the features that published ones use, and hostile templates.

use jiff::civil::datetime;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::answer::Syntax;

fn conversation() -> Vec<Message> {
    vec![Message::new("system", "Be brief."), Message::new("user", "Hi"), Message::new("assistant", "Hello!")]
}

fn render(source: &str, messages: &[Message]) -> Result<String, Error> {
    let now = datetime(2026, 2, 5, 0, 0, 0, 0).into();
    let input = RenderInput { messages, bos_token: "<s>", eos_token: "</s>", now, ..RenderInput::default() };
    Template::jinja(source)?.render(&input)
}

fn check(source: &str, wanted: &str) {
    assert_eq!(render(source, &conversation()), Ok(wanted.to_owned()), "{source:?}");
}

#[test]
fn default_template_renders_chatml() {
    let messages = conversation();
    let input = RenderInput { messages: &messages[1..2], add_generation_prompt: true, ..RenderInput::default() };
    let text = Template::default_chatml().render(&input);
    assert_eq!(text, Ok("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n".to_owned()), "ChatML");
}

#[test]
fn values_print_as_in_python() {
    check("{{ none }} {{ true }} {{ 1.0 }} {{ 1e20 }} {{ 0.00001 }} {{ 3 }}", "None True 1.0 1e+20 1e-05 3");
    check(r#"{{ ["a", "it's", none] }} {{ {"k": [false]} }}"#, r#"['a', "it's", None] {'k': [False]}"#);
    check("[{{ undefined_name }}]", "[]");
    check("{{ messages[1].content | length }}{{ missing | length }}", "20");
}

#[test]
fn tojson_matches_json_dumps() {
    check(r#"{{ {"a": [1, "<é>"], "b": {}} | tojson }}"#, r#"{"a": [1, "<é>"], "b": {}}"#);
    check(r#"{{ {"b": 1, "a": []} | tojson(indent=2, sort_keys=true) }}"#, "{\n  \"a\": [],\n  \"b\": 1\n}");
    check(r#"{{ ["é", "🦙"] | tojson(ensure_ascii=true) }}"#, r#"["\u00e9", "\ud83e\udd99"]"#);
    check("{{ \"~\x7f\" | tojson(ensure_ascii=true) }}{{ \"\x7f\" | tojson }}", "\"~\\u007f\"\"\x7f\"");
    check(r#"{{ [1, {"a": 2}] | tojson(separators=(",", ":")) }}"#, r#"[1,{"a":2}]"#);
}

#[test]
fn python_methods_and_blocks_render() {
    check("{{ messages[1]['content'].upper().strip('H') }}", "I");
    check(
        "{% for m in messages %}\n  {% if loop.last %}{% break %}{% endif %}\n{{ m.role }};\n{% endfor %}",
        "system;\nuser;\n",
    );
    check("{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}", "3");
    check("{% macro twice(x) %}{{ x }}{{ x }}{% endmacro %}{{ twice('ab') }}", "abab");
    check("{{ bos_token }}{{ messages[::-1][0].content }}{{ eos_token }}", "<s>Hello!</s>");
    check("{{ strftime_now('%d %b %Y') }}", "05 Feb 2026");
    check("a\n    {%- generation %}b{% endgeneration -%}\n c", "abc");
    check("{{ '<&>' }}{{ '<' | e }}", "<&>&lt;");
    check(
        "{{ none is iterable }} {{ missing is iterable }} {{ 'a' is iterable }} {{ 1 is iterable }}",
        "False True True False",
    );
}

#[test]
fn raise_exception_is_reported_as_refusal() {
    let rejected = render("{% if messages %}{{ raise_exception('Roles must alternate') }}{% endif %}", &conversation());
    assert_eq!(rejected, Err(Error::Refused { reason: "Roles must alternate".to_owned() }), "the template's message");
    assert!(matches!(render("{{ 1 / 0 }}", &[]), Err(Error::Failed { .. })), "a runtime error");
    assert!(matches!(render("{% if %}", &[]), Err(Error::Syntax { .. })), "a syntax error");
    // The engine's compiler panics on this one.
    let panicked = Error::Syntax { reason: "the template engine panicked".to_owned() };
    assert_eq!(render("{% import 'a' as b|items %}", &[]), Err(panicked), "the engine's panic is caught");
}

#[test]
fn hostile_templates_hit_limits() {
    let endless = format!("{{% for a in range(10000) %}}{}{{% endfor %}}", "{% set b = a %}".repeat(1000));
    assert_eq!(render(&endless, &[]), Err(Error::TooLarge { what: "steps" }), "a long loop exceeds the step limit");
    let long = "{% for a in range(10000) %}{{ 'x' * 1000000 }}{% endfor %}";
    assert_eq!(render(long, &[]), Err(Error::TooLarge { what: "output" }), "output exceeds its limit");
    let deep = "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}";
    assert_eq!(render(deep, &[]), Err(Error::TooLarge { what: "nesting" }), "endless recursion");
    let lists = "{% set ns = namespace(x=[]) %}{% for i in range(200) %}{% set ns.x = [ns.x] %}{% endfor %}";
    assert_eq!(render(lists, &[]), Err(Error::TooLarge { what: "nesting" }), "a list of lists");
    let nested = "(".repeat(50_000);
    assert!(render(&format!("{{{{ {nested} }}}}"), &[]).is_err(), "a deep expression is an error");
    let huge = " ".repeat(MAX_SOURCE_BYTES + 1);
    assert_eq!(render(&huge, &[]), Err(Error::TooLarge { what: "source" }), "a huge template is rejected");
}

/// The engine parses operator chains in a loop, so their length is not limited there. It walks the syntax tree by
/// recursion, and the tree of a chain is as deep as the chain is long.
#[test]
fn operator_chains_are_limited() {
    let chains =
        ["not ", "-", "messages + ", "messages if messages else ", "messages and ", "a ~ "].map(|link| (link, ""));
    let chains = chains.into_iter().chain([".a", "[0]", "()", " | string", " is defined"].map(|link| ("", link)));
    for (before, after) in chains {
        let of = |links: usize| format!("{{{{ {}messages{} }}}}", before.repeat(links), after.repeat(links));
        let rejected = |links| matches!(Template::jinja(&of(links)), Err(Error::TooLarge { what: "depth" }));
        assert!(!rejected(50), "50 links, as in published templates: {before}{after}");
        for links in [5_000, 10_000] {
            assert!(rejected(links), "{links} links: {before}{after}");
        }
    }
    let branches = |count: usize| format!("{{% if a %}}{}{{% endif %}}", "{% elif a %}".repeat(count));
    assert!(Template::jinja(&branches(100)).is_ok(), "100 branches");
    assert_eq!(render(&branches(20_000), &[]), Err(Error::TooLarge { what: "depth" }), "branches nest too");
    let product = |factors: usize| format!("{{{{ {}1 }}}}", "1 * ".repeat(factors));
    assert!(Template::jinja(&product(499)).is_ok(), "each factor counts as two operators");
    assert_eq!(render(&product(500), &[]), Err(Error::TooLarge { what: "depth" }), "one more factor exceeds the limit");
    let list = format!("{{{{ [{}] | length }}}}", "'a', ".repeat(5000));
    check(&list, "5000");
    check(&"{{ 1 + 1 }}".repeat(2000), &"2".repeat(2000));
}

/// Renders the deepest templates that the limits allow on a thread with half the default stack of tokio and `std` (2
/// MiB). A stack overflow would abort the process.
#[test]
fn deepest_templates_fit_half_a_stack() {
    const STACK_BYTES: usize = 1 << 20;
    let blocks = [
        ("{% if messages %}", "{% endif %}"),
        ("{% for a in messages %}", "{% endfor %}"),
        ("{% call raise_exception() %}", "{% endcall %}"),
    ];
    let chains = [("not ", "", 990), ("1 * ", "", 490), ("messages(", ")", 50), ("", " | string", 490)];
    for (opens, closes) in blocks {
        for (before, after, links) in chains {
            let blocks = if after == ")" { 90 } else { 98 };
            let template = format!(
                "{}{{% if a %}}{}{{% elif {}messages{} %}}{{% endif %}}{}",
                opens.repeat(blocks),
                "{% elif a %}".repeat(200 - 1),
                before.repeat(links),
                after.repeat(links),
                closes.repeat(blocks),
            );
            let run = move || Template::jinja(&template).map(|template| drop(template.render(&RenderInput::default())));
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run).expect("a thread can start");
            let read = thread.join().expect("nothing panics");
            assert_eq!(read, Ok(()), "within the limits: {opens} {before}{after}");
        }
    }
}

/// Templates that double their memory in every turn, or allocate gigabytes at once.
#[test]
fn hostile_templates_cannot_exhaust_memory() {
    let growing = |step: &str| {
        format!("{{% set ns = namespace(x=['a'], t='ab') %}}{{% for i in range(99) %}}{step}{{% endfor %}}")
    };
    for step in [
        "{% set ns.t = ns.t + ns.t %}",
        "{% set ns.t = ns.t ~ ns.t %}",
        "{% set ns.t = ns.t * 1000 %}",
        "{% set ns.t = ns.t.replace('a', ns.t) %}",
        "{% set ns.t = ns.t | replace('b', ns.t) %}",
        "{% set ns.t = [ns.t, ns.t] | join %}",
        "{% set ns.t = ns.t.join([ns.t, ns.t]) %}",
        "{% set ns.t = [ns.t, ns.t] | string %}",
        "{% set ns.t = [ns.t, ns.t] | tojson %}",
        "{% set ns.t %}{{ ns.t }}{{ ns.t }}{% endset %}",
        "{% set ns.t = '%s%s' | format(ns.t, ns.t) %}",
        "{% set ns.t = ns.t | escape ~ '<<' * 9999 %}",
        "{% set ns.x = ns.x + ns.x %}",
        "{% set ns.x = ns.x * 1000 %}",
        "{% set ns.x = [ns.x, ns.x] %}",
        "{% set ns.x = (ns.x, ns.x) %}",
        "{% set ns.x = {'a': ns.x, 'b': ns.x} %}",
        "{% set ns.x = dict(a=ns.x, b=ns.x) %}",
        "{% set ns.x = namespace(a=ns.x, b=ns.x) %}",
        "{% set ns.x = ns.x | batch(10000, 'fill') | list %}{% set ns.x = ns.x * 100 %}",
    ] {
        let got = render(&growing(step), &[]);
        assert!(matches!(got, Err(Error::TooLarge { .. })), "{step}: {:?}", got.map(|text| text.len()));
    }
    for huge in
        ["{{ 'a' * 1000000000 }}", "{{ ('a' * 99999999) ~ ('a' * 99999999) }}", "{{ '%999999999d' | format(1) }}"]
    {
        assert!(matches!(render(huge, &[]), Err(Error::TooLarge { .. } | Error::Failed { .. })), "{huge}");
    }
}

/// Published templates look at the whole conversation once for each message.
#[test]
fn long_conversations_are_within_limits() {
    let jinja = "{%- set ns = namespace(last=messages|length - 1) %}{%- for message in messages[::-1] %}\
        {%- set index = (messages|length - 1) - loop.index0 %}\
        {%- if message.role == 'user' and message.content is string and 'user' in message %}{%- set ns.last = index %}{%- endif %}\
        {%- endfor %}{%- for message in messages %}{%- if loop.index0 > 0 and messages[loop.index0 - 1].role == 'user' %}\
        {{- message.content.split('</think>')[-1].lstrip('\\n') | trim }}{%- endif %}{%- endfor %}";
    let slicing =
        "{{ range $i, $_ := .Messages }}{{ $last := eq (len (slice $.Messages $i)) 1 }}{{ .Content }}{{ end }}";
    let check = |template: Result<Template, Error>, count: usize, bytes: usize| {
        let role = |at: usize| if at.is_multiple_of(2) { "user" } else { "assistant" };
        let messages: Vec<Message> = (0..count).map(|at| Message::new(role(at), "word ".repeat(bytes / 5))).collect();
        let text = template.expect("valid").render(&RenderInput { messages: &messages, ..RenderInput::default() });
        assert!(text.is_ok_and(|text| text.len() >= count / 2 * (bytes - 5)), "{count} messages of {bytes} bytes");
    };
    check(Template::jinja(jinja), 2000, 1000);
    check(Template::jinja(jinja), 5000, 100);
    check(Template::go(slicing), 1800, 1000);
}

#[test]
fn operators_match_python() {
    check("{{ 1 + 2 }} {{ 1 + 2.5 }} {{ true + 1 }} {{ 3 * 1.5 }} {{ 7 - 2 * 3 }}", "3 3.5 2 4.5 1");
    check("{{ 'ab' * 2 }} {{ 2 * 'ab' }} {{ [1] * 2 }} {{ 'a' * -1 }}", "abab abab [1, 1] ");
    check("{{ [1] + [2] }} {{ (1,) + (2,) }} {{ 'a' ~ 1 ~ none ~ true }}", "[1, 2] (1, 2) a1NoneTrue");
    check("{{ '<' | safe + '<' }} {{ '<' + '<' | safe }} {{ '<' | safe ~ '<' }}", "<&lt; &lt;< <<");
    check("{{ 'hello'[1:3] }} {{ 'hello'[::-1] }} {{ 'hello'[-3:] }} {{ 'hello'[10:] }}.", "el olleh llo .");
    check(
        "{{ [][::-1] }} {{ [1, 2, 3][::-1] }} {{ [1, 2, 3][-2::-1] }} {{ (1, 2, 3)[1:] }}",
        "[] [3, 2, 1] [2, 1] (2, 3)",
    );
    check("{{ 'ell' in 'hello' }} {{ 2 in [1, 2] }} {{ 'k' in {'k': 1} }} {{ 3 not in [1] }}", "True True True True");
    check(
        "{{ 1 == 1.0 }} {{ 'a' < 'b' }} {{ [1, 2] == [1, 2] }} {{ 1 < 2 < 3 }} {{ 2 >= 3 }}",
        "True True True True False",
    );
    check(
        "{% macro m(a, b=[1]) %}{{ a }}{{ b * 2 }}{% endmacro %}{{ m(*[5]) }} {{ m(1, b=[2] + [3]) }}",
        "5[1, 1] 1[2, 3, 2, 3]",
    );
    check(
        "{% for i in [3, 1, 2] | sort if i != 2 %}{% if i == 1 %}{% continue %}{% endif %}<{{ i }}>{% else %}none{% endfor %}",
        "<3>",
    );
}

#[test]
fn capabilities_are_detected_in_source() {
    let capabilities = |source| Template::jinja(source).expect("valid").capabilities();
    let both = Capabilities { tools: true, thinking: true, ..Capabilities::default() };
    assert_eq!(capabilities("{{ tools }}<think></think>"), both, "both");
    assert_eq!(capabilities("<think>"), Capabilities::default(), "one tag without the other");
    assert!(capabilities("{{ message.tool_calls }}").tools, "tool calls imply tools");
    assert!(capabilities("{{ message.tool_calls }}{{ tool_response }}").tool_results, "tool calls and results");
    assert!(!capabilities("{{ tools }}{{ tool_response }}").tool_results, "results without calls");
}

#[test]
fn thinking_tags_are_detected_in_source() {
    let tags = |source: &str| {
        let template = Template::jinja(source).expect("valid");
        assert_eq!(template.capabilities().thinking, template.thinking_tags().is_some(), "{source}");
        template.thinking_tags().map(|(open, close)| format!("{open} {close}"))
    };
    let check = |source, wanted| assert_eq!(tags(source).as_deref(), wanted, "{source}");
    check("<think>{{ x }}</think>", Some("<think> </think>"));
    check("{{ '<|channel>thought\n' + x + '\n<channel|>' }}", Some("<|channel>thought <channel|>"));
    check("{% set begin = '<seed:think>' %}{% set end = '</seed:think>' %}", Some("<seed:think> </seed:think>"));
    check("[THINK]{{ x }}[/THINK]", Some("[THINK] [/THINK]"));
    check("<|START_THINKING|>{{ x }}<|END_THINKING|>", Some("<|START_THINKING|> <|END_THINKING|>"));
    let channels = "<|start|>assistant<|channel|>analysis<|message|>{{ x }}<|end|>";
    check(channels, Some("<|channel|>analysis<|message|> <|end|>"));
    check("<|channel|>final<|message|>{{ x }}<|end|>", None);
    check("<seed:think>{{ x }}</think>", None);
}

#[test]
fn answer_format_is_detected_in_source() {
    let check = |source: &str, wanted: Option<Syntax>| {
        let format = Template::jinja(source).expect("valid").answer_format();
        assert_eq!(format.tool_calls, wanted, "{source}");
    };
    check("{{ messages }}", None);
    check("{{ tools }}", Some(Syntax::Llama));
    check("{{ tools }}<tool_call>", Some(Syntax::Hermes));
    check("{{ tools }}<tool_call><function=a><parameter=b>", Some(Syntax::Xml));
    check("{{ tools }}<tool_call><arg_key>", Some(Syntax::Glm));
    check("{{ tools }}<|tool_call|><tool_call>", Some(Syntax::Pipes));
    check("<|tool|>{{ tools }}<|/tool|>", Some(Syntax::Pipes));
    check("List of tools: [{{ tools }}]", Some(Syntax::Lfm2));
    check("{{ tools }}<TOOLCALL>[]</TOOLCALL>", Some(Syntax::After("<TOOLCALL>".to_owned())));
    check("{{ tools }}<|tools_prefix|>", Some(Syntax::After("<|tools_prefix|>".to_owned())));
    let format = Template::jinja("{{ tools }}<think></think><|tool_call>").expect("valid").answer_format();
    assert_eq!(format.thinking, Some(("<think>".to_owned(), "</think>".to_owned())), "the tags of the template");
}

#[test]
fn variables_are_passed_to_template() {
    let tools = json!([{ "type": "function", "function": { "name": "f" } }]);
    let call = ToolCallOf { name: "f", arguments: json!({ "x": 1 }) }.message();
    let messages = [call, Message { tool_name: Some("f".into()), ..Message::new("tool", "2") }];
    let input = RenderInput {
        messages: &messages,
        tools: Some(&tools),
        thinking: Some(ThinkMode::Level("low".into())),
        ..RenderInput::default()
    };
    let source = "{{ tools[0].function.name }} {{ messages[0].tool_calls[0].function.arguments | tojson }} {{ messages[1].name }} \
        {{ enable_thinking }} {{ reasoning_effort }} {{ messages[0].reasoning_content }} {{ documents is none }}";
    let text = Template::jinja(source).expect("valid").render(&input);
    assert_eq!(text, Ok("f {\"x\": 1} f True low why True".to_owned()), "all variables are set");
}

struct ToolCallOf {
    name: &'static str,
    arguments: serde_json::Value,
}

impl ToolCallOf {
    fn message(self) -> Message {
        let call = crate::ToolCall { id: None, name: self.name.to_owned(), arguments: self.arguments };
        Message { thinking: Some("why".to_owned()), tool_calls: vec![call], ..Message::new("assistant", "") }
    }
}

proptest! {
    #[test]
    fn random_template_never_panics(source in "(\\{\\{|\\}\\}|\\{%-?|-?%\\}|if|for|in|set|endif|endfor|messages|generation|[|.()'+ a-z0-9é]){0,25}") {
        let _ = render(&source, &conversation());
    }

    #[test]
    fn random_message_renders(role in any::<String>(), content in any::<String>()) {
        let messages = [Message::new(role.clone(), content.clone())];
        let text = render(CHATML, &messages);
        prop_assert_eq!(text, Ok(format!("<|im_start|>{role}\n{content}<|im_end|>\n")));
    }
}
