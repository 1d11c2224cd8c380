//! Answers of a model that recites calls, with an MCP server that is a shell script.
#![cfg(unix)]

use std::time::SystemTime;

use cairn_chats::{AnswerRequest, ChatLine, ChatMessage, MessageState, NewChatRequest, SendRequest};
use cairn_mcp::{Endpoint, ServerConfig};
use cairn_testkit::{Script, scripted};

use super::super::edit::PathPart;
use super::super::follow::Follower;
use super::*;
use crate::App;
use crate::clock::Clock;
use crate::library::installation::install;
use crate::settings::{Env, Places, Settings, System};

/// The template of a model that calls tools, and answers after a result.
const CALLER: &str = "{% if tools %}<tools>{{ tools | tojson }}</tools>{% endif %}\
    {% for message in messages %}<|im_start|>{{ message.role }} {{ message.content }}\
    {% for call in message.tool_calls %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}<|im_end|>{% endfor %}\
    {% if messages[-1].role == 'tool' %}<|script1|>{% else %}<|script0|>{% endif %}";
/// The template of a model that calls tools without an end.
const ENDLESS: &str = "{% if tools %}<tools></tools>{% endif %}{% for message in messages %}<|im_start|>{{ message.role }}\
    {% for call in message.tool_calls %}<tool_call></tool_call>{% endfor %}<|im_end|>{% endfor %}<|script0|>";
/// The template of a model that knows no tools.
const WITHOUT_TOOLS: &str =
    "{% for message in messages %}<|im_start|>{{ message.content }}<|im_end|>{% endfor %}<|script1|>";

/// Answers one request on each line. `pair` answers when it is called twice.
const SERVER: &str = r#"
PATH=/usr/bin:/bin
first=
respond() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$1" "$2"; }
text() { respond "$1" '{"content":[{"type":"text","text":"'"$2"'"}]}'; }
while IFS= read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    case "$line" in
    *'"initialize"'*) respond "$id" '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"tools/list"'*) respond "$id" '{"tools":[{"name":"echo","inputSchema":{"type":"object"}},{"name":"die","inputSchema":{"type":"object"}},{"name":"pair","inputSchema":{"type":"object"}},{"name":"hang","inputSchema":{"type":"object"}}]}' ;;
    *'"name":"die"'*) echo "no more paper" >&2; exit 3 ;;
    *'"name":"hang"'*) ;;
    *'"name":"pair"'*) if [ -n "$first" ]; then text "$first" one; text "$id" two; else first=$id; fi ;;
    *'"tools/call"'*) text "$id" "three" ;;
    esac
done
"#;

struct Fixture {
    _home: tempfile::TempDir,
    app: App,
    chat: String,
}

impl Fixture {
    /// Starts a daemon with a chat. Its model writes `calls` first, and "It is three." after a result.
    async fn new(template: &str, calls: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let script = |begin, text| Script { begin, text };
        let first = format!("Let me look.\n{calls}");
        let file = scripted(template, &[script("<|script0|>", &first), script("<|script1|>", "It is three.")], &[]);
        install(home.path(), "caller", &file);
        let env = [
            ("CAIRN_HOME", &*home.path().to_string_lossy()),
            ("OLLAMA_KV_TIERING", "0"),
            ("CAIRN_KERNEL", "scalar"),
            ("CAIRN_CHAT_TITLES", "0"),
        ];
        let env = Env::of(env);
        let settings = Settings::load(&env, &Places::of(&env, System::Xdg).unwrap());
        let app = App::for_test(settings, Clock::fixed(SystemTime::UNIX_EPOCH));
        let endpoint = Endpoint::Stdio {
            command: "/bin/sh".to_owned(),
            args: vec!["-c".to_owned(), SERVER.to_owned()],
            env: [].into(),
        };
        app.tools().add(ServerConfig { name: "sh".to_owned(), endpoint }, true).await.unwrap();
        let new = NewChatRequest { model: Some("caller".to_owned()), ..NewChatRequest::default() };
        let chat = app.chats().create_chat(new).unwrap().stored.row.id;
        Self { _home: home, app, chat }
    }

    async fn allow(&self, tool: &str) {
        self.app.tools().set_permission("sh", tool, Permission::Always).await.unwrap();
    }

    async fn ask(&self) -> Follower {
        self.send(SendRequest { content: "How many?".to_owned(), ..SendRequest::default() }).await
    }

    async fn send(&self, request: SendRequest) -> Follower {
        self.app.chats().ask_in_chat(&self.chat, request, ()).await.unwrap()
    }

    async fn decide(&self, call: &str, decision: CallDecision) {
        self.app.chats().decide_call(&self.chat, call, decision).await.unwrap();
    }

    /// The stored messages of the shown branch.
    fn path(&self, chat: &str) -> Vec<ChatMessage> {
        let part = PathPart { leaf: None, before: None, limit: 100 };
        self.app.chats().chat_path(chat, &part).unwrap().messages
    }
}

fn call(name: &str) -> String {
    format!("<tool_call>\n{{\"name\": \"sh__{name}\", \"arguments\": {{\"of\": \"{name}\"}}}}\n</tool_call>")
}

/// Reads lines until a call of the first step has a state, and returns it.
async fn until(follower: &mut Follower, state: StepCallState) -> StepCall {
    loop {
        match follower.next().await.expect("the answer continues") {
            ChatLine::Step(line) => {
                if let Some(call) = line.step.calls.into_iter().find(|call| call.state == state) {
                    return call;
                }
            }
            ChatLine::Done(message) | ChatLine::Failed(message) => panic!("no call is {state:?}: {message:?}"),
            _ => {}
        }
    }
}

/// Reads the rest of an answer. Checks that the lines add up to the last message.
async fn end(follower: &mut Follower) -> ChatMessage {
    let mut text = None;
    loop {
        match follower.next().await.expect("a last line") {
            ChatLine::Step(line) => text = Some(String::new()).filter(|_| line.index == 0).or(text),
            ChatLine::Text(more) => text = text.map(|text| text + &more),
            ChatLine::Done(message) => {
                if let Some(text) = text.filter(|_| message.steps.len() == 1) {
                    assert_eq!(text, message.content, "the deltas after the step");
                }
                return *message;
            }
            ChatLine::Failed(message) => panic!("failed: {:?}", message.error),
            _ => {}
        }
    }
}

fn states(message: &ChatMessage) -> Vec<StepCallState> {
    message.steps.iter().flat_map(|step| &step.calls).map(|call| call.state).collect()
}

fn results(message: &ChatMessage) -> Vec<&str> {
    let calls = message.steps.iter().flat_map(|step| &step.calls);
    calls.map(|call| call.result.as_deref().unwrap_or_default()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn call_waits_for_the_user_and_its_result_is_read() {
    let fixture = Fixture::new(CALLER, &call("echo")).await;
    let mut follower = fixture.ask().await;
    let waiting = until(&mut follower, StepCallState::Waiting).await;
    let described = (&*waiting.function, &*waiting.origin, &*waiting.tool, waiting.result.as_deref());
    assert_eq!(described, ("sh__echo", "sh", "echo", None));
    assert_eq!(Value::from(waiting.arguments), serde_json::json!({ "of": "echo" }), "as the model wrote them");
    let mut later = fixture.app.chats().follow_chat(&fixture.chat).await.unwrap().expect("an answer in progress");
    let Some(ChatLine::Answer(answer)) = later.next().await else { panic!("the answer so far") };
    assert_eq!((&*answer.content, answer.steps.len()), ("", 1), "the step has the text so far");
    let chats = fixture.app.chats();
    let other = chats.decide_call(&fixture.chat, "call_of_another_chat", CallDecision::Once).await;
    assert!(matches!(other, Err(Error::NoCall(_))), "{other:?}");
    fixture.decide(&waiting.id, CallDecision::Once).await;
    let message = end(&mut follower).await;
    let again = chats.decide_call(&fixture.chat, &waiting.id, CallDecision::Once).await;
    assert!(matches!(again, Err(Error::NoCall(_))), "{again:?}");
    assert_eq!((&*message.content, message.state), ("It is three.", MessageState::Complete));
    assert_eq!(message.steps[0].content, "Let me look.");
    assert_eq!((states(&message), results(&message)), (vec![StepCallState::Done], vec!["three"]));
    assert!(message.steps[0].calls[0].duration_ms.is_some() && message.tools_left_out.is_empty());
    let usage = message.usage.clone().expect("a usage");
    assert!(usage.answer_tokens > 20 && usage.cached_tokens < usage.prompt_tokens, "of both requests: {usage:?}");
    assert_eq!(fixture.path(&fixture.chat)[1], message, "the answer is stored");
    assert!(matches!(later.next().await, Some(ChatLine::Step(_))), "the other client gets the changes");
    let asked = until(&mut fixture.ask().await, StepCallState::Waiting).await;
    assert_ne!(asked.id, waiting.id, "the next call asks again");
}

#[tokio::test(flavor = "multi_thread")]
async fn decisions_for_all_calls_are_stored() {
    let fixture = Fixture::new(CALLER, &call("echo")).await;
    let mut follower = fixture.ask().await;
    let waiting = until(&mut follower, StepCallState::Waiting).await;
    fixture.decide(&waiting.id, CallDecision::Always).await;
    assert_eq!(states(&end(&mut follower).await), [StepCallState::Done]);
    let message = end(&mut fixture.ask().await).await;
    assert_eq!(states(&message), [StepCallState::Done], "without a question");

    fixture.app.tools().set_permission("sh", "echo", Permission::Ask).await.unwrap();
    let mut follower = fixture.ask().await;
    let waiting = until(&mut follower, StepCallState::Waiting).await;
    fixture.decide(&waiting.id, CallDecision::Never).await;
    assert_eq!(states(&end(&mut follower).await), [StepCallState::Refused]);
    let message = end(&mut fixture.ask().await).await;
    assert_eq!(states(&message), [StepCallState::Failed], "the model is not offered the tool");
    assert!(results(&message)[0].contains("No tool is named"), "{message:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_call_does_not_run() {
    let fixture = Fixture::new(CALLER, &call("die")).await;
    let mut follower = fixture.ask().await;
    let waiting = until(&mut follower, StepCallState::Waiting).await;
    fixture.decide(&waiting.id, CallDecision::Refuse).await;
    let message = end(&mut follower).await;
    assert_eq!((states(&message), &*message.content), (vec![StepCallState::Refused], "It is three."));
    let asked = until(&mut fixture.ask().await, StepCallState::Waiting).await;
    assert_eq!(asked.tool, "die", "the next call asks again");
}

#[tokio::test(flavor = "multi_thread")]
async fn server_that_dies_is_a_failed_call() {
    let fixture = Fixture::new(CALLER, &call("die")).await;
    fixture.allow("die").await;
    let message = end(&mut fixture.ask().await).await;
    assert_eq!((states(&message), &*message.content), (vec![StepCallState::Failed], "It is three."));
    assert!(results(&message)[0].contains("no more paper"), "{message:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_a_step_run_at_the_same_time() {
    let fixture =
        Fixture::new(CALLER, &format!("{}\n{}", call("pair"), call("pair").replace("pair\"}", "both\"}"))).await;
    fixture.allow("pair").await;
    let message = end(&mut fixture.ask().await).await;
    let mut found = results(&message);
    found.sort_unstable();
    assert_eq!(found, ["one", "two"], "the server answers after the second call");
}

#[tokio::test(flavor = "multi_thread")]
async fn always_decides_on_all_waiting_calls_of_a_tool() {
    let fixture =
        Fixture::new(CALLER, &format!("{}\n{}", call("pair"), call("pair").replace("pair\"}", "both\"}"))).await;
    let mut follower = fixture.ask().await;
    let waiting = until(&mut follower, StepCallState::Waiting).await;
    fixture.decide(&waiting.id, CallDecision::Always).await;
    assert_eq!(states(&end(&mut follower).await), [StepCallState::Done; 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_answer_keeps_its_interrupted_calls_and_continues() {
    let fixture = Fixture::new(CALLER, &format!("{}\n{}", call("echo"), call("hang"))).await;
    fixture.allow("hang").await;
    let mut follower = fixture.ask().await;
    until(&mut follower, StepCallState::Waiting).await;
    assert!(fixture.app.chats().stop_chat(&fixture.chat).await);
    let message = end(&mut follower).await;
    assert_eq!((states(&message), message.state), (vec![StepCallState::Interrupted; 2], MessageState::Stopped));
    assert_eq!(fixture.path(&fixture.chat)[1], message, "the answer is stored");

    let resume = AnswerRequest { resume: Some(message.id.clone()), ..AnswerRequest::default() };
    let mut follower = fixture.app.chats().answer_again(&fixture.chat, resume, ()).await.unwrap();
    let continued = end(&mut follower).await;
    assert_eq!((&*continued.content, continued.state), ("It is three.", MessageState::Complete));
    assert_eq!(continued.steps, message.steps, "the steps are kept");

    let chats = fixture.app.chats();
    let fork = chats.fork_chat(&fixture.chat, &message.id, None).unwrap().stored.row.id;
    assert_eq!(fixture.path(&fork)[1].steps, message.steps, "a copy has them");
    chats.edit_answer(&fixture.chat, &message.id, "Four.").unwrap();
    assert_eq!(fixture.path(&fixture.chat)[1].steps, message.steps, "an edited answer has them");
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_interrupts_a_call_that_waits() {
    let fixture = Fixture::new(CALLER, &call("echo")).await;
    let mut follower = fixture.ask().await;
    until(&mut follower, StepCallState::Waiting).await;
    fixture.app.shutdown();
    while follower.next().await.is_some() {}
    let message = &fixture.path(&fixture.chat)[1];
    assert_eq!((states(message), message.state), (vec![StepCallState::Interrupted], MessageState::Interrupted));
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_calls_end_after_the_last_step() {
    let fixture = Fixture::new(ENDLESS, &call("echo")).await;
    fixture.allow("echo").await;
    let message = end(&mut fixture.ask().await).await;
    let states = states(&message);
    let (last, steps) = states.split_last().unwrap();
    assert_eq!((steps, last), (&[StepCallState::Done; 16][..], &StepCallState::Failed));
    assert!(results(&message)[16].contains("16 steps"), "{message:?}");
    assert_eq!(message.state, MessageState::Complete);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_above_the_limit_of_a_step_fail() {
    let calls: Vec<String> = (0..18).map(|n| call("echo").replace("echo\"}", &format!("{n}\"}}"))).collect();
    let fixture = Fixture::new(CALLER, &calls.join("\n")).await;
    fixture.allow("echo").await;
    let message = end(&mut fixture.ask().await).await;
    let states = states(&message);
    assert_eq!((&states[..16], &states[16..]), (&[StepCallState::Done; 16][..], &[StepCallState::Failed][..]));
    assert_eq!(message.content, "It is three.", "the model continues");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_tools_have_a_reason() {
    let fixture = Fixture::new(WITHOUT_TOOLS, &call("echo")).await;
    let message = end(&mut fixture.ask().await).await;
    assert_eq!((&*message.content, message.steps.len()), ("It is three.", 0));
    assert_eq!(message.tools_left_out.len(), 1, "{message:?}");
    assert!(message.tools_left_out[0].reason.contains("cannot call tools"), "{message:?}");
    let off = SendRequest { content: "How many?".to_owned(), tools: Some(false), ..SendRequest::default() };
    assert_eq!(end(&mut fixture.send(off).await).await.tools_left_out, [], "the request has no tools");

    let fixture = Fixture::new(CALLER, &call("echo")).await;
    let endpoint = Endpoint::Stdio { command: "/no/such/program".to_owned(), args: Vec::new(), env: [].into() };
    fixture.app.tools().add(ServerConfig { name: "gone".to_owned(), endpoint }, true).await.unwrap();
    fixture.allow("echo").await;
    let message = end(&mut fixture.ask().await).await;
    assert_eq!(states(&message), [StepCallState::Done], "other servers are used");
    let [left_out] = &message.tools_left_out[..] else { panic!("{message:?}") };
    assert_eq!(left_out.origin.as_deref(), Some("gone"));
    let off = SendRequest { content: "How many?".to_owned(), tools: Some(false), ..SendRequest::default() };
    let message = end(&mut fixture.send(off).await).await;
    assert!(message.content.contains("<tool_call>") && message.steps.is_empty(), "a call is a text: {message:?}");
}

#[test]
fn results_above_the_limit_of_an_answer_are_cut() {
    let result = |text: &str| ToolResult { text: text.to_owned(), ..ToolResult::default() };
    let check = |limit: usize, expected: &str, is_cut: bool| {
        let mut call = StepCall {
            id: "1".to_owned(),
            function: "a__b".to_owned(),
            origin: "a".to_owned(),
            tool: "b".to_owned(),
            arguments: Map::new(),
            state: StepCallState::Running,
            result: None,
            truncated: false,
            images: 0,
            duration_ms: None,
        };
        set_result(&mut call, result("aäb"), limit);
        let text = call.result.expect("a result");
        assert!(text.starts_with(expected) && text.contains("was cut") == is_cut, "{limit}: {text}");
        assert_eq!((call.truncated, call.state), (is_cut, StepCallState::Done), "{limit}");
    };
    check(4, "aäb", false);
    check(2, "a\n[", true);
    check(0, "\n[", true);
}
