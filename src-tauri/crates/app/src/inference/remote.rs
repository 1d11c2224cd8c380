//! Answers of remotes: the request for their servers.

use std::time::{Duration, Instant};

use cairn_grammar::{Constraint, Error as FormatError};
use cairn_prompt as prompt;
use cairn_upstream::{Call, Plan, Prefix, Request, Target};
use serde_json::{Value, json};

use super::answer::Answer;
use super::chat::Chat;
use super::error::Error;
use super::generate::Generate;
use super::handle::Inference;
use super::load::Reply;
use super::location::is_absent;
use super::remote_answer::RemoteAnswer;
use super::tool_use::ToolUse;
use crate::library;
use crate::remotes::{Remotes, canonical};
use crate::values::{
    ChatRequest, FunctionCall, GenerateRequest, KeepAlive, OllamaMessage, OllamaToolCall, ShowResponse,
};

/// How long our own response waits for the status of a remote. A later failure is the last part of the response.
pub(super) const STATUS_WAIT: Duration = Duration::from_millis(500);

impl Inference {
    /// Describes a model of a remote, after `error` of the library.
    ///
    /// # Errors
    /// `error`, if no remote has the model; otherwise if its servers do not describe it.
    pub async fn show_at_remote(&self, name: &str, error: library::Error) -> Result<ShowResponse, Error> {
        if !is_absent(&error) || !self.uses_remotes {
            return Err(error.into());
        }
        self.remotes.show(name).await?.ok_or_else(|| error.into())
    }

    pub(super) async fn chat_at_remote(
        &self,
        chat: Chat,
        targets: Vec<Target>,
        started_at: Instant,
    ) -> Result<Reply, Error> {
        let (is_incognito, keep_alive) = (chat.scope.incognito, chat.keep_alive);
        let (is_empty, tool_use) = (chat.messages.is_empty(), chat.tool_use);
        let name = canonical(&chat.model);
        let request = Request::Chat(Box::new(chat_request(chat, &targets)?));
        match is_empty {
            true => load_or_unload(request, targets, keep_alive).await,
            false => start(request, &name, targets, is_incognito, tool_use, started_at).await,
        }
    }

    pub(super) async fn generate_at_remote(
        &self,
        generate: Generate,
        targets: Vec<Target>,
        started_at: Instant,
    ) -> Result<Reply, Error> {
        let (is_incognito, keep_alive) = (generate.scope.incognito, generate.keep_alive);
        let is_empty = generate.prompt.is_empty();
        let name = canonical(&generate.model);
        let request = Request::Generate(Box::new(generate_request(generate)?));
        match is_empty {
            true => load_or_unload(request, targets, keep_alive).await,
            false => start(request, &name, targets, is_incognito, ToolUse::default(), started_at).await,
        }
    }
}

/// Starts a request. `name` is the canonical name of the model.
async fn start(
    request: Request,
    name: &str,
    targets: Vec<Target>,
    is_incognito: bool,
    tool_use: ToolUse,
    started_at: Instant,
) -> Result<Reply, Error> {
    let plan = Plan { targets, prefix: request.prefix(name), is_incognito };
    let mut call = Call::start(plan, request);
    call.accepted(STATUS_WAIT).await?;
    let answer = RemoteAnswer::new(call, started_at).with_tool_use(tool_use);
    Ok(Reply::Answer(Box::new(Answer::remote(answer))))
}

/// Passes a request without a prompt on: it loads the model at one server, or unloads it at all of them.
async fn load_or_unload(request: Request, targets: Vec<Target>, keep_alive: Option<KeepAlive>) -> Result<Reply, Error> {
    let unloads = keep_alive == Some(KeepAlive::ZERO);
    if !Remotes::have_ollama_api(&targets) {
        return match unloads {
            true => Err(Error::Unsupported("unloading a model of a remote with the OpenAI API")),
            // These servers load their models when they start.
            false => Ok(Reply::Loaded),
        };
    }
    let plan = |targets| Plan { targets, prefix: Prefix::of_hashes(Vec::new()), is_incognito: true };
    let plans =
        if unloads { targets.into_iter().map(|target| plan(vec![target])).collect() } else { vec![plan(targets)] };
    for plan in plans {
        let mut call = Call::start(plan, request.clone());
        while let Some(frame) = call.next().await {
            frame?;
        }
    }
    Ok(if unloads { Reply::Unloaded } else { Reply::Loaded })
}

/// Refuses what no remote can do with the request.
fn check(images: bool, logprobs: bool, render_only: bool) -> Result<(), Error> {
    match () {
        () if images => Err(Error::Unsupported("sending images to a remote through this endpoint")),
        () if logprobs => Err(Error::Unsupported("log probabilities of a remote through this endpoint")),
        () if render_only => Err(Error::Unsupported("rendering the prompt of a remote's model")),
        () => Ok(()),
    }
}

fn format(constraint: Option<Constraint>) -> Result<Option<Value>, Error> {
    match constraint {
        None => Ok(None),
        Some(Constraint::JsonObject) => Ok(Some(Value::from("json"))),
        Some(Constraint::JsonSchema(schema)) => object_schema(schema).map(Some),
        Some(Constraint::Regex(_) | Constraint::Lark(_) | Constraint::Parts(_)) => {
            Err(Error::Unsupported("a regular expression or grammar for the answer of a remote"))
        }
    }
}

/// Returns a schema as an object, because a format of Ollama's API is one.
fn object_schema(schema: Value) -> Result<Value, Error> {
    match schema {
        Value::Object(_) => Ok(schema),
        Value::Bool(true) => Ok(json!({})),
        Value::Bool(false) => Ok(json!({"not": {}})),
        _ => Err(FormatError::NotASchema { at: "#".to_owned() }.into()),
    }
}

fn chat_request(chat: Chat, targets: &[Target]) -> Result<ChatRequest, Error> {
    let has_images = chat.messages.iter().any(|message| !message.images.is_empty());
    check(has_images, chat.logprobs.is_some(), chat.render_only)?;
    if chat.prefix.is_some() {
        return Err(Error::Unsupported("continuing an answer of a remote's model"));
    }
    if chat.tool_use.is_required && !chat.tools.is_empty() {
        return Err(Error::Unsupported("requiring a tool call of a remote's model through this endpoint"));
    }
    let think = chat.think.filter(|think| !chat.is_think_optional || can_think(targets) || !think.is_on());
    Ok(ChatRequest {
        model: chat.model,
        messages: chat.messages.into_iter().map(message).collect(),
        stream: Some(true),
        format: format(chat.format)?,
        keep_alive: chat.keep_alive,
        tools: (!chat.tools.is_empty()).then_some(chat.tools),
        options: chat.options,
        think,
        truncate: chat.whole.then_some(false),
        shift: chat.no_shift.then_some(false),
        ..ChatRequest::default()
    })
}

/// Whether a server lists thinking as a capability of the model.
fn can_think(targets: &[Target]) -> bool {
    targets.iter().any(|Target { upstream, model }| {
        let models = upstream.models();
        let listed = models.iter().find(|listed| listed.name == *model);
        listed.is_some_and(|listed| listed.capabilities.iter().any(|name| name == "thinking"))
    })
}

fn message(message: prompt::Message) -> OllamaMessage {
    let call = |(index, call): (u32, prompt::ToolCall)| OllamaToolCall {
        id: call.id,
        function: FunctionCall { index, name: call.name, arguments: call.arguments },
    };
    let calls: Vec<_> = (0..).zip(message.tool_calls).map(call).collect();
    OllamaMessage {
        role: message.role,
        content: message.content,
        thinking: message.thinking,
        images: None,
        tool_calls: (!calls.is_empty()).then_some(calls),
        tool_name: message.tool_name,
        tool_call_id: message.tool_call_id,
    }
}

fn generate_request(generate: Generate) -> Result<GenerateRequest, Error> {
    check(!generate.images.is_empty(), generate.logprobs.is_some(), generate.render_only)?;
    Ok(GenerateRequest {
        model: generate.model,
        prompt: generate.prompt,
        suffix: generate.suffix,
        system: generate.system,
        template: generate.template,
        context: (!generate.context.is_empty()).then_some(generate.context),
        stream: Some(true),
        raw: generate.raw.then_some(true),
        format: format(generate.format)?,
        keep_alive: generate.keep_alive,
        options: generate.options,
        think: generate.think,
        truncate: generate.whole.then_some(false),
        shift: generate.no_shift.then_some(false),
        ..GenerateRequest::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::Think;

    fn chat() -> Chat {
        Chat { model: "m".to_owned(), messages: vec![prompt::Message::new("user", "Why?")], ..Chat::default() }
    }

    #[test]
    fn request_without_counterpart_is_refused() {
        let check = |chat: Chat, expected: &str| {
            let error = chat_request(chat, &[]).expect_err("refused").to_string();
            assert!(error.contains(expected), "{error}");
        };
        let mut with_image = chat();
        with_image.messages[0].images.push(prompt::Image::default());
        check(with_image, "images");
        check(Chat { logprobs: Some(0), ..chat() }, "log probabilities");
        check(Chat { render_only: true, ..chat() }, "rendering");
        check(Chat { prefix: Some(super::super::AnswerPrefix::default()), ..chat() }, "continuing");
        let tool_use = ToolUse { is_required: true, ..ToolUse::default() };
        check(Chat { tools: vec![Value::Null], tool_use, ..chat() }, "requiring a tool call");
        check(Chat { format: Some(Constraint::Regex("a".to_owned())), ..chat() }, "regular expression");
        let schema = |schema| Some(Constraint::JsonSchema(schema));
        check(Chat { format: schema(json!([])), ..chat() }, "the schema at # must be an object or a boolean");
    }

    #[test]
    fn boolean_schema_becomes_an_object_with_the_same_meaning() {
        let check = |schema: Value, expected: Value| {
            let format = Some(Constraint::JsonSchema(schema));
            assert_eq!(chat_request(Chat { format, ..chat() }, &[]).unwrap().format, Some(expected));
        };
        check(json!(true), json!({}));
        check(json!(false), json!({"not": {}}));
        check(json!({"type": "null"}), json!({"type": "null"}));
    }

    #[test]
    fn optional_thinking_is_omitted_for_models_that_cannot_think() {
        let think = |think, is_think_optional| {
            chat_request(Chat { think: Some(think), is_think_optional, ..chat() }, &[]).unwrap().think
        };
        assert_eq!(think(Think::Switch(true), true), None);
        assert_eq!(think(Think::Switch(true), false), Some(Think::Switch(true)), "the server refuses it");
        assert_eq!(think(Think::Switch(false), true), Some(Think::Switch(false)));
    }
}
