//! Compares renderings with those of Python's Jinja2, recorded by `fixtures/record.py`.
//!
//! The repository contains templates for a first test, and recordings of published templates. Published templates
//! themselves are not part of it: the test looks in `chat-templates` under `CAIRN_CONFORMANCE`, else under
//! `shared/conformance` of a parent folder. Without them the test is skipped with a message.
//!
//! The prompts of Ollama's renderers are in `fixtures/renderers`: `== case`, and the prompt; its last line break is not
//! part of it. They are those of the published templates by Python's Jinja2, with these exceptions:
//!
//! - Values of calls of Qwen 3.5 and Ornith, and lists of types of Qwen3-Coder, are JSON. Ornith keeps all thoughts, and so does
//!   GLM-4.7, by the variable `clear_thinking` of its template.
//! - Later system messages are in their places for Qwen 3.5, and at the beginning for Qwen 3.8. Their templates reject them.
//! - The list of tools of DeepSeek-V3.1 is that of its documentation, because its template has none.
//! - FunctionGemma's follow Google's documentation; those of Cogito, LFM2 and Olmo 3 Think follow Ollama.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use cairn_prompt::{Error, Message, RenderInput, Syntax, Template, ThinkMode, ToolCall};
use serde_json::Value;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn json(name: &str) -> Value {
    serde_json::from_str(&read(&fixtures().join(name))).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the folder of published templates, if this machine has it.
#[expect(clippy::disallowed_methods, reason = "the environment names the folder of data outside the repository")]
fn published() -> Option<PathBuf> {
    let named = std::env::var_os("CAIRN_CONFORMANCE").map(PathBuf::from);
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("shared/conformance"));
    let folder =
        named.into_iter().chain(above).map(|folder| folder.join("chat-templates")).find(|folder| folder.is_dir());
    if folder.is_none() {
        eprintln!("SKIPPED: no published chat templates (set CAIRN_CONFORMANCE, or put them at ../shared/conformance)");
    }
    folder
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn message(json: &Value) -> Message {
    let calls = json["tool_calls"].as_array().cloned().unwrap_or_default();
    Message {
        thinking: text(&json["thinking"]),
        tool_name: text(&json["tool_name"]),
        tool_call_id: text(&json["tool_call_id"]),
        tool_calls: calls
            .iter()
            .map(|call| ToolCall {
                id: text(&call["id"]),
                name: text(&call["name"]).expect("a call has a name"),
                arguments: call["arguments"].clone(),
            })
            .collect(),
        ..Message::new(json["role"].as_str().expect("a role"), json["content"].as_str().expect("a text"))
    }
}

fn render(template: Result<Template, Error>, case: &Value, tools: &Value) -> Result<String, Error> {
    let messages: Vec<Message> = case["messages"].as_array().expect("messages").iter().map(message).collect();
    let thinking = match &case["thinking"] {
        Value::Bool(true) => Some(ThinkMode::On),
        Value::Bool(false) => Some(ThinkMode::Off),
        Value::String(level) => Some(ThinkMode::Level(level.clone())),
        _ => None,
    };
    template?.render(&RenderInput {
        messages: &messages,
        tools: case["tools"].as_bool().unwrap_or(false).then_some(tools),
        add_generation_prompt: case["add_generation_prompt"].as_bool().unwrap_or(true),
        bos_token: "<s>",
        eos_token: "</s>",
        thinking,
        now: jiff::civil::datetime(2026, 2, 5, 13, 4, 9, 0).into(),
    })
}

/// Expands the recorded texts of one template: a text with a common prefix is stored as prefix length and rest.
fn in_full(recorded: &Value) -> BTreeMap<String, Value> {
    let recorded = recorded.as_object().expect("recordings by case");
    let first: Vec<char> = recorded.values().find_map(Value::as_str).unwrap_or_default().chars().collect();
    let expand = |value: &Value| match value {
        Value::Array(parts) => {
            let shared = parts[0].as_u64().expect("a number of characters") as usize;
            let rest = parts[1].as_str().expect("the rest of a text").chars();
            Value::String(first[..shared].iter().copied().chain(rest).collect())
        }
        other => other.clone(),
    };
    recorded.iter().map(|(case, value)| (case.clone(), expand(value))).collect()
}

/// Compares a rendering with the recording. Where Python raises an error, such as for a loop over `None`, this crate
/// may fail or succeed. A rejection by the template must have the same message.
fn verdict(got: &Result<String, Error>, wanted: &Value) -> &'static str {
    match (got, wanted) {
        (Ok(got), Value::String(wanted)) if got == wanted => "equal",
        (Err(Error::Refused { reason }), Value::Object(wanted))
            if wanted.get("refused").is_some_and(|message| message == reason) =>
        {
            "both refuse"
        }
        (Err(_), Value::Object(wanted)) if wanted.contains_key("error") => "both fail",
        (Ok(_), Value::Object(wanted)) if wanted.contains_key("error") => "only Python fails",
        _ => "different",
    }
}

/// Renders every recorded template in `folder` with every case, and lists the differences.
fn check(folder: &Path, recording: &str) {
    let (cases, tools) = (json("cases.json"), json("tools.json"));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut differ = Vec::new();
    for (name, wanted) in json(recording).as_object().expect("recordings by template") {
        let path = folder.join(name);
        if !path.is_file() {
            *counts.entry("absent").or_default() += 1;
            continue;
        }
        let source = read(&path);
        let wanted = in_full(wanted);
        for case in cases.as_array().expect("a list of cases") {
            let case_name = case["name"].as_str().expect("a case has a name");
            let (got, wanted) = (render(Template::jinja(&source), case, &tools), &wanted[case_name]);
            let verdict = verdict(&got, wanted);
            *counts.entry(verdict).or_default() += 1;
            if verdict == "different" {
                differ.push(format!("{name}, {case_name}:\n  got    {got:?}\n  wanted {wanted}"));
            }
        }
    }
    eprintln!("{recording}: {counts:?}");
    assert!(counts.contains_key("equal"), "nothing was compared in {}", folder.display());
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ.join("\n"));
}

#[test]
fn fixture_templates_match_recordings() {
    check(&fixtures().join("templates"), "own.json");
}

#[test]
fn published_templates_match_recordings() {
    let Some(folder) = published() else { return };
    check(&folder, "published.json");
}

#[test]
fn renderers_write_expected_prompts() {
    let given = json("renderers/cases.json");
    let list = |key: &str| given[key].as_array().expect("a list of cases");
    // The first renderers have prompts only of the first cases.
    let cases: Vec<&Value> = list("cases").iter().chain(list("more")).collect();
    let entries = fs::read_dir(fixtures().join("renderers")).expect("the folder of prompts");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let (mut differ, mut counts) = (Vec::new(), BTreeMap::new());
    for path in paths.filter(|path| path.extension().is_some_and(|ending| ending == "txt")) {
        let name = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".txt")).expect("a name in UTF-8");
        let template = Template::by_renderer_name(name).unwrap_or_else(|| panic!("no renderer {name}"));
        let all = read(&path);
        let prompts = all.strip_prefix("== ").and_then(|all| all.strip_suffix('\n')).expect("prompts").split("\n== ");
        let prompts: Vec<(&str, &str)> = prompts.map(|part| part.split_once('\n').expect("a prompt")).collect();
        *counts.entry(prompts.len()).or_default() += 1;
        for (case, (case_name, wanted)) in cases.iter().zip(prompts) {
            assert_eq!(case["name"], case_name, "{name}: the order of the cases");
            let got = render(Ok(template.clone()), case, &given["tools"]);
            if got.as_deref() != Ok(wanted) {
                differ.push(format!("{name}, {case_name}:\n  got    {got:?}\n  wanted {wanted:?}"));
            }
        }
    }
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ.join("\n"));
    let expected = BTreeMap::from([(list("cases").len(), 8), (cases.len(), 12)]);
    assert_eq!(counts, expected, "number of renderers by their number of prompts");
}

#[test]
fn gemma4_describes_nested_parameters() {
    let tools = serde_json::json!([{"type": "function", "function": {"name": "book", "parameters": {
        "type": "object",
        "properties": {
            "stops": {"type": "array", "description": "In order", "items": {"type": "object", "required": ["place"], "properties": {
                "place": {"type": "string"}, "kind": {"type": "string", "enum": ["a", "b"]},
            }}},
            "pay": {"type": "object", "required": ["card"], "properties": {"card": {"type": "string", "nullable": true}}},
            "tags": {"type": "array", "items": {"type": ["string", "null"]}},
            "free": {"type": "object", "additionalProperties": {"type": "string"}},
            "when": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
    }}}]);
    let case = serde_json::json!({"tools": true, "messages": [{"role": "user", "content": "Go"}]});
    let template = Template::by_renderer_name("gemma4").expect("a renderer");
    let prompt = render(Ok(template), &case, &tools).expect("a prompt").replace("<|\"|>", "'");
    let wanted = [
        "free:{properties:{additionalProperties:{type:'STRING'}},type:'OBJECT'}",
        "pay:{properties:{card:{nullable:true,type:'STRING'}},required:['card'],type:'OBJECT'}",
        "stops:{description:'In order',items:{properties:{kind:{enum:['a','b'],type:'STRING'},place:{type:'STRING'}},required:\
         ['place'],type:'OBJECT'},type:'ARRAY'}",
        "tags:{items:{type:['STRING','NULL']},type:'ARRAY'}",
        "when:{type:'['STRING', 'NULL']'}",
    ];
    let wanted =
        format!("declaration:book{{description:'',parameters:{{properties:{{{}}},type:'OBJECT'}}}}", wanted.join(","));
    assert!(prompt.contains(&wanted), "{wanted} is not in {prompt}");
}

#[test]
fn result_without_an_id_belongs_to_the_call_at_its_position() {
    let call = |name: &str| serde_json::json!({"name": name, "arguments": {}});
    let result = |text: &str| serde_json::json!({"role": "tool", "content": text});
    let case = serde_json::json!({"messages": [
        {"role": "user", "content": "Both?"},
        {"role": "assistant", "content": "", "tool_calls": [call("f"), call("g")]},
        result("1"),
        result("2"),
        result("3"),
    ]});
    let template = Template::by_renderer_name("functiongemma").expect("a renderer");
    let prompt = render(Ok(template), &case, &Value::Null).expect("a prompt");
    for part in ["response:f{value:<escape>1", "response:g{value:<escape>2", "response:unknown{value:<escape>3"] {
        assert!(prompt.contains(part), "{part} is not in {prompt}");
    }
}

#[test]
fn function_gemma_writes_deeply_nested_arguments() {
    let prompt = |levels: usize| {
        let arguments = (0..levels).fold(serde_json::json!(1), |inner, _| serde_json::json!({"a": [inner]}));
        let call = serde_json::json!({"name": "f", "arguments": arguments});
        let case = serde_json::json!({"messages": [{"role": "assistant", "content": "", "tool_calls": [call]}]});
        render(Ok(Template::by_renderer_name("functiongemma").expect("a renderer")), &case, &Value::Null)
    };
    let written = format!("call:f{}1{}<end_function_call>", "{a:[".repeat(35), "]}".repeat(35));
    let deep = prompt(35).expect("70 nested values");
    assert!(deep.contains(&written), "{written} is not in {deep}");
    let error = prompt(60).expect_err("120 nested values").to_string();
    assert_eq!(
        error,
        "the chat template exceeds the limit on its nesting; if the request has tools, nest their arguments, results and \
         parameters less deeply"
    );
}

#[test]
fn published_templates_reveal_their_answer_format() {
    const THINK: Option<&str> = Some("<think>");
    let Some(folder) = published() else { return };
    let formats = [
        ("Apertus-8B-Instruct", Some("<|inner_prefix|>"), Some(Syntax::After("<|tools_prefix|>".to_owned()))),
        ("Apriel-1.6-15b-Thinker-fixed", None, Some(Syntax::Hermes)),
        ("Bielik-11B-v3.0-Instruct", THINK, Some(Syntax::Hermes)),
        ("ByteDance-Seed-OSS", Some("<seed:think>"), Some(Syntax::Xml)),
        ("Cohere2MoE", Some("<|START_THINKING|>"), Some(Syntax::Cohere)),
        ("CohereForAI-c4ai-command-r7b-12-2024-tool_use", Some("<|START_THINKING|>"), Some(Syntax::Cohere)),
        ("GLM-4.6", THINK, Some(Syntax::Glm)),
        ("GLM-5.2", THINK, Some(Syntax::Glm)),
        ("GigaChat3.1-10B-A1.8B", None, Some(Syntax::Pipes)),
        ("Kimi-K2-Instruct", None, Some(Syntax::Kimi)),
        ("Kimi-K2-Thinking", THINK, Some(Syntax::Kimi)),
        ("LFM2-8B-A1B", None, Some(Syntax::Lfm2)),
        ("MiMo-VL", None, Some(Syntax::Hermes)),
        ("Mistral-Small-3.2-24B-Instruct-2506", None, Some(Syntax::Mistral)),
        ("NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", THINK, Some(Syntax::Xml)),
        ("NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", None, Some(Syntax::Hermes)),
        ("Qwen-QwQ-32B", THINK, Some(Syntax::Hermes)),
        ("Qwen-Qwen2.5-7B-Instruct", None, Some(Syntax::Hermes)),
        ("Qwen-Qwen3-0.6B", THINK, Some(Syntax::Hermes)),
        ("Qwen3.5-4B", THINK, Some(Syntax::Xml)),
        ("StepFun3.5-Flash", THINK, Some(Syntax::Xml)),
        ("deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", THINK, Some(Syntax::DeepSeek)),
        ("deepseek-ai-DeepSeek-V3.1", THINK, Some(Syntax::DeepSeek)),
        ("fireworks-ai-llama-3-firefunction-v2", None, Some(Syntax::Pipes)),
        ("google-gemma-2-2b-it", None, None),
        ("google-gemma-4-31B-it-interleaved", Some("<|channel>thought"), Some(Syntax::Gemma4)),
        ("llama-cpp-rwkv-world", THINK, None),
        ("meetkai-functionary-medium-v3.1", None, Some(Syntax::Llama)),
        ("meta-llama-Llama-3.1-8B-Instruct", None, Some(Syntax::Llama)),
        ("meta-llama-Llama-3.3-70B-Instruct", None, Some(Syntax::Llama)),
        ("mistralai-Ministral-3-14B-Reasoning-2512", Some("[THINK]"), Some(Syntax::Mistral)),
        ("openai-gpt-oss-120b", Some("<|channel|>analysis<|message|>"), Some(Syntax::Harmony)),
        ("unsloth-Apriel-1.5", Some("<thinking>"), Some(Syntax::Hermes)),
        ("unsloth-mistral-Devstral-Small-2507", None, Some(Syntax::Mistral)),
    ];
    let mut differ = Vec::new();
    for (name, thinking, tool_calls) in formats {
        let path = folder.join(format!("{name}.jinja"));
        if !path.is_file() {
            continue;
        }
        let format = Template::jinja(&read(&path)).expect("a valid template").answer_format();
        let open = format.thinking.as_ref().map(|(open, _)| open.as_str());
        if (open, &format.tool_calls) != (thinking, &tool_calls) {
            differ.push(format!("{name}: {format:?}"));
        }
    }
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ.join("\n"));
}
