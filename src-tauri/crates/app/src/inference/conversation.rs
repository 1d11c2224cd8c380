//! Renders and encodes a conversation for a loaded model.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use cairn_grammar::{Constraint, Matcher, Part};
use cairn_prompt::{self as prompt, AnswerParser, CallLimits, ThinkingStart};
use cairn_runtime::{
    AdapterUse, Constrained, ContextFullPolicy, Lease, PromptPicture, Request, ThinkingTags, pictures_in,
    remove_cut_pictures,
};
use cairn_tokenizer::{EncodeOptions, Tokenizer};
use serde_json::{Value, json};

use super::error::Error;
use super::fit::{self, Fitted, Rendered};
use super::handle::Inference;
use super::options::Chosen;
use super::pictures::Pictures;
use super::prompt_work::Waiting;
use super::tool_use::ToolUse;
use crate::library::catalog::Model;
use crate::library::template::{self, Choice};
use crate::settings::ContextShift;
use crate::values::Think;

/// The beginning of an answer that is continued.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnswerPrefix {
    /// Thinking so far.
    pub thinking: Option<String>,
    /// Text so far.
    pub content: String,
}

/// Inputs of a rendering besides the model.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rendering {
    /// The time that templates may print.
    pub(super) now: prompt::LocalTime,
    /// `OLLAMA_GO_TEMPLATE`.
    pub(super) go_template: Option<bool>,
    /// Whether a model that cannot think ignores the request to think.
    pub(super) is_think_optional: bool,
}

impl Inference {
    /// Returns the inputs of a rendering besides the model. The time is UTC, because requests do not contain a time
    /// zone.
    pub(crate) fn rendering(&self) -> Rendering {
        let seconds = self.clock.now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let now = prompt::LocalTime::from_unix_s(i64::try_from(seconds).unwrap_or(i64::MAX));
        Rendering { now, go_template: self.settings.models.go_template, is_think_optional: false }
    }
}

/// Prepends the model's own messages: its system message, unless the client sends one, and its examples.
pub(crate) fn with_model_messages(model: &Model, asked: Vec<prompt::Message>) -> Vec<prompt::Message> {
    let first_is_system = asked.first().is_some_and(|message| message.role.eq_ignore_ascii_case("system"));
    let mut messages: Vec<prompt::Message> = model.messages.clone();
    if let Some(system) = model.system.as_ref().filter(|_| !first_is_system) {
        messages.insert(0, prompt::Message::new("system", system));
    }
    messages.extend(asked.into_iter().map(|message| prompt::Message { role: message.role.to_lowercase(), ..message }));
    messages
}

/// Returns the prompt of a model without a template: the texts of the messages.
fn plain(messages: &[prompt::Message]) -> String {
    messages.iter().map(|message| message.content.as_str()).collect::<Vec<_>>().join("\n")
}

/// Appends the beginning of an answer to the prompt, in the model's format. The prompts of some templates already end
/// with the opening tag of the thinking.
fn append_prefix(text: &mut String, prefix: &AnswerPrefix, tags: Option<(&str, &str)>) {
    if let Some((open, close)) = tags {
        let is_open = text.trim_end().ends_with(open);
        if let Some(thinking) = &prefix.thinking {
            if !is_open {
                text.push_str(open);
                text.push('\n');
            }
            text.push_str(thinking);
        }
        if !prefix.content.is_empty() && (is_open || prefix.thinking.is_some()) {
            if !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(close);
            text.push_str("\n\n");
        }
    }
    text.push_str(&prefix.content);
}

/// Returns the thinking mode of this request; `None` if the model cannot think.
fn thinking(name: &str, can: bool, asked: Option<Think>) -> Result<Option<Think>, Error> {
    match (can, asked) {
        (true, asked) => Ok(Some(asked.unwrap_or(Think::Switch(true)))),
        (false, Some(think)) if think.is_on() => Err(Error::NoThinking(name.to_owned())),
        (false, _) => Ok(None),
    }
}

/// How an answer is read.
pub(crate) struct Parsing {
    pub(crate) parser: AnswerParser,
    /// Control tokens that the parser reads.
    pub(crate) visible_tokens: Vec<u32>,
    /// Tags of the reasoning before the text, if the model may think.
    pub(crate) thinking: Option<ThinkingTags>,
}

/// Compiles the format of an answer. Blocks.
pub(crate) fn constraint(
    lease: &Lease,
    format: Option<Constraint>,
    thinking: Option<ThinkingTags>,
) -> Result<Option<Constrained>, Error> {
    let Some(format) = format else { return Ok(None) };
    let matcher = Matcher::new(&lease.vocabulary()?, &format)?;
    Ok(Some(Constrained { matcher, thinking }))
}

/// Renders and encodes messages for one loaded model.
pub(crate) struct Conversation {
    pub(crate) model: String,
    tokenizer: Arc<Tokenizer>,
    /// Maximum number of tokens of prompt and answer together.
    pub(crate) context_tokens: usize,
    /// Number of the model's adapters.
    adapters: usize,
    choice: Choice,
    now: prompt::LocalTime,
    /// Result of [`thinking`].
    thinks: Option<Think>,
    /// Beginning of the answer, which is appended to each prompt.
    prefix: Option<AnswerPrefix>,
    /// Tools in the format of OpenAI's API; null for none.
    tools: Value,
    /// Pictures that have marks in the messages.
    pictures: Option<Pictures>,
    /// Name with the registry, for errors with Ollama's text.
    full_name: String,
}

/// Whether tokens in the middle of a long prompt may be dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// No: a prompt that is too long is rejected.
    Never,
    /// Yes, after the first tokens: this number or the option `num_keep`, whichever is larger.
    After(usize),
}

impl Conversation {
    /// Creates a conversation with the template that fits the model. `name` is the model's name in the request.
    pub(crate) fn new(
        model: &Model,
        lease: &Lease,
        rendering: Rendering,
        name: &str,
        think: Option<Think>,
    ) -> Result<Self, Error> {
        let choice = template::choose(model, lease.template(), rendering.go_template)?;
        tracing::debug!(model = model.summary.name, reason = choice.reason, "chat template");
        let can_think = choice.capabilities().thinking;
        let thinks = thinking(name, can_think, think.filter(|_| can_think || !rendering.is_think_optional))?;
        Ok(Self {
            model: model.summary.name.clone(),
            tokenizer: Arc::clone(lease.tokenizer()),
            context_tokens: lease.context_tokens() as usize,
            adapters: model.adapters.len(),
            choice,
            now: rendering.now,
            thinks,
            prefix: None,
            tools: Value::Null,
            pictures: None,
            full_name: model.full_name(),
        })
    }

    /// Appends the beginning of the answer to each prompt.
    pub(crate) fn with_prefix(self, prefix: Option<AnswerPrefix>) -> Self {
        Self { prefix, ..self }
    }

    /// Replaces the model's template by a Go template.
    ///
    /// # Errors
    /// If the template is invalid.
    pub(crate) fn with_template(self, source: &str) -> Result<Self, Error> {
        let template = prompt::Template::go(source)?;
        let choice = Choice { format: template.answer_format(), template: Some(template), ..self.choice };
        Ok(Self { choice, ..self })
    }

    /// Adds tools to each prompt.
    ///
    /// # Errors
    /// If the model's template has no place for tools.
    pub(crate) fn with_tools(self, tools: Vec<Value>) -> Result<Self, Error> {
        match tools.is_empty() {
            true => Ok(self),
            false if self.choice.capabilities().tools => Ok(Self { tools: Value::Array(tools), ..self }),
            false => Err(self.lacks("tools")),
        }
    }

    /// Decodes the images of messages, and puts marks in their place. If the model cannot see, each image is replaced by the text
    /// `unseen`.
    ///
    /// # Errors
    /// When the model cannot see and there is no such text, or when an image cannot be decoded.
    pub(super) fn with_images(
        self,
        lease: &Lease,
        messages: &mut [prompt::Message],
        unseen: Option<&str>,
        waiting: &Waiting,
    ) -> Result<Self, Error> {
        if let Some(unseen) = unseen.filter(|_| !matches!(lease.vision(), Ok(Some(_)))) {
            for message in messages {
                for _ in std::mem::take(&mut message.images) {
                    message.content += &format!("\n{unseen}");
                }
            }
            return Ok(self);
        }
        Ok(Self { pictures: Pictures::place(lease, &self.model, messages, waiting)?, ..self })
    }

    /// Returns a rendered text for readers, without marks.
    pub(crate) fn readable(&self, text: String) -> String {
        match &self.pictures {
            Some(pictures) => pictures.readable(&text),
            None => text,
        }
    }

    /// The pictures of the prompt.
    pub(crate) fn pictures(&self) -> &[PromptPicture] {
        self.pictures.as_ref().map_or(&[], Pictures::list)
    }

    /// Number of images of the conversation that a shortened prompt lacks.
    pub(crate) fn lost_images(&self, prompt: &[u32]) -> u32 {
        self.pictures().len().saturating_sub(pictures_in(prompt)) as u32
    }

    /// Returns what an answer must match: the format, calls of the tools, or either.
    ///
    /// # Errors
    /// If the model's syntax of calls cannot be enforced.
    pub(crate) fn expected(&self, format: Option<Constraint>, tool_use: ToolUse) -> Result<Option<Constraint>, Error> {
        if self.tools.is_null() || (format.is_none() && !tool_use.is_required) {
            return Ok(format);
        }
        let limits = CallLimits { most: tool_use.is_single.then_some(1), is_strict: tool_use.is_required };
        let tools = prompt::Tool::list(&self.tools);
        if tools.is_empty() {
            return Ok(format);
        }
        let calls = self.choice.format.calls(&tools, limits);
        let calls = calls.ok_or_else(|| Error::CallsNotEnforced { model: self.model.clone() })?;
        let calls = calls.with_tokens(&|tag| self.tokenizer.control_token(tag));
        let text = match format.filter(|_| !tool_use.is_required) {
            None => return Ok(Some(Constraint::Parts(calls))),
            Some(Constraint::JsonObject) => Part::Json(json!({"type": "object"})),
            Some(Constraint::JsonSchema(schema)) => Part::Json(schema),
            Some(Constraint::Regex(regex)) => Part::Regex(regex),
            Some(Constraint::Parts(part)) => part,
            Some(Constraint::Lark(_)) => return Err(Error::GrammarWithTools),
        };
        Ok(Some(Constraint::Parts(Part::Choice(vec![calls, text]))))
    }

    fn lacks(&self, capability: &'static str) -> Error {
        Error::CapabilityMissing { model: self.model.clone(), full_name: self.full_name.clone(), capability }
    }

    /// Fits a conversation, with room for one token of the answer. With `whole`, drops nothing.
    pub(crate) fn fit(&self, messages: Vec<prompt::Message>, whole: bool) -> Result<Fitted, Error> {
        let limit_tokens = if whole { usize::MAX } else { self.context_tokens.saturating_sub(1) };
        fit::turns(messages, limit_tokens, Error::is_template_limit, |kept| self.encode_messages(kept))
    }

    /// Renders and encodes a conversation.
    pub(crate) fn encode_messages(&self, messages: &[prompt::Message]) -> Result<Rendered, Error> {
        let mut text = self.render(messages)?;
        if let Some(prefix) = &self.prefix {
            let tags = self.choice.format.thinking.as_ref();
            append_prefix(&mut text, prefix, tags.map(|(open, close)| (open.as_str(), close.as_str())));
        }
        Ok(Rendered { tokens: self.encode(&text, true), text })
    }

    /// Returns how a conversation with these tokens may be cut.
    pub(crate) fn cut(&self, messages: &[prompt::Message], tokens: &[u32], chosen: &Chosen) -> Result<Cut, Error> {
        let rope = chosen.context_shift == Some(ContextShift::Rope);
        let head_tokens = match messages.iter().position(|message| message.role != "system") {
            // The messages before the first turn always stay.
            Some(first) if rope => self.head_tokens(messages, tokens, first)?,
            _ if tokens.len() < self.context_tokens => 0,
            _ => self.head_tokens(messages, tokens, messages.len().saturating_sub(1))?,
        };
        Ok(Cut::After(head_tokens))
    }

    /// Returns the number of tokens before the text of a message. Returns 0 if they would take more than half of the
    /// context, because too little would be left for the rest.
    fn head_tokens(&self, messages: &[prompt::Message], tokens: &[u32], at: usize) -> Result<usize, Error> {
        let mut without = messages[..messages.len().min(at + 1)].to_vec();
        if let Some(last) = without.last_mut() {
            last.content.clear();
        }
        let head = self.encode_messages(&without)?.tokens.iter().zip(tokens).take_while(|(a, b)| a == b).count();
        Ok(if head <= self.context_tokens / 2 { head } else { 0 })
    }

    pub(crate) fn render(&self, messages: &[prompt::Message]) -> Result<String, Error> {
        match &self.choice.template {
            Some(template) => self.with_input(messages, |input| Ok(template.render_reshaped(input)?)),
            None => Ok(plain(messages)),
        }
    }

    /// Renders a prompt for the text between two others.
    pub(crate) fn insert(&self, before: &str, after: &str) -> Result<String, Error> {
        let template = self.choice.template.as_ref().filter(|template| template.capabilities().insert);
        let template = template.ok_or_else(|| self.lacks("insert"))?;
        self.with_input(&[], |input| Ok(template.insert(before, after, input)?))
    }

    /// Calls `render` with the input of the model's template.
    fn with_input<T>(
        &self,
        messages: &[prompt::Message],
        render: impl FnOnce(&prompt::RenderInput<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let tokenizer = &self.tokenizer;
        let text = |id: Option<u32>| id.map(|id| String::from_utf8_lossy(tokenizer.piece_with_special(id)));
        let (bos, eos) = (text(tokenizer.bos()).unwrap_or_default(), text(tokenizer.eos()).unwrap_or_default());
        render(&prompt::RenderInput {
            messages,
            tools: (!self.tools.is_null()).then_some(&self.tools),
            add_generation_prompt: true,
            bos_token: &bos,
            eos_token: &eos,
            thinking: self.thinks.map(|think| match think {
                Think::Switch(false) => prompt::ThinkMode::Off,
                Think::Switch(true) => prompt::ThinkMode::On,
                Think::Level(level) => prompt::ThinkMode::Level(level.as_str().to_owned()),
            }),
            now: self.now,
        })
    }

    /// Encodes text with marks of pictures. `starts` is true if no tokens precede it.
    pub(crate) fn encode(&self, text: &str, starts: bool) -> Vec<u32> {
        match &self.pictures {
            None => self.encode_text(text, starts),
            Some(pictures) => pictures.encode(text, starts, |text, starts| self.encode_text(text, starts)),
        }
    }

    /// Encodes text.
    fn encode_text(&self, text: &str, starts: bool) -> Vec<u32> {
        let tokenizer = &self.tokenizer;
        let mut tokens = tokenizer.encode(text, EncodeOptions { add_special: starts, parse_special: true });
        // Many templates write the begin token themselves, and the tokenizer adds it again.
        if let (Some(bos), [first, second, ..]) = (tokenizer.bos(), tokens.as_slice())
            && tokenizer.adds_bos()
            && *first == bos
            && *second == bos
        {
            tokens.remove(0);
        }
        tokens
    }

    /// Returns how the answer to a prompt is read. The prompt may already end with the opening tag of the thinking.
    pub(crate) fn parsing(&self, prompt: &str) -> Parsing {
        let format = &self.choice.format;
        let open = format.thinking.as_ref().map(|(open, _)| open.as_str()).unwrap_or_default();
        let start = match &self.prefix {
            _ if open.is_empty() => ThinkingStart::Off,
            // A continued answer has finished its thinking, unless it has no text yet.
            Some(prefix) if !prefix.content.is_empty() => ThinkingStart::Off,
            // Some models always think, also if the request disables it.
            _ if prompt.trim_end().ends_with(open) => ThinkingStart::Inside,
            _ if !self.thinks.is_some_and(Think::is_on) => ThinkingStart::Off,
            Some(AnswerPrefix { thinking: Some(_), .. }) => ThinkingStart::Inside,
            _ => ThinkingStart::AtTag,
        };
        let tools = prompt::Tool::list(&self.tools);
        let is_parsed = start != ThinkingStart::Off || !tools.is_empty() || format.frames_text();
        let tags = format.preserved_tokens().filter(|_| is_parsed);
        let visible_tokens = tags.filter_map(|tag| self.tokenizer.control_token(tag)).collect();
        let thinking = format.thinking.as_ref().and_then(|(open, close)| match start {
            ThinkingStart::Off => None,
            ThinkingStart::AtTag => Some(ThinkingTags { open: Some(open.clone()), close: close.clone() }),
            ThinkingStart::Inside => Some(ThinkingTags { open: None, close: close.clone() }),
        });
        Parsing { parser: AnswerParser::new(format, &tools, start), visible_tokens, thinking }
    }

    /// Returns the engine's request with a prompt that fits, and the number of tokens that were cut.
    pub(crate) fn request(&self, tokens: Vec<u32>, chosen: Chosen, cut: Cut) -> Result<(Request, usize), Error> {
        let all_tokens = tokens.len();
        let head = match cut {
            Cut::Never => 0,
            Cut::After(tokens) => i64::try_from(tokens).unwrap_or(i64::MAX),
        };
        let bos = i64::from(self.tokenizer.adds_bos());
        let keep_tokens =
            if chosen.keep_tokens < 0 { chosen.keep_tokens } else { chosen.keep_tokens.saturating_add(bos).max(head) };
        let mut prompt = fit::prompt(tokens, self.context_tokens, keep_tokens, cut != Cut::Never)?;
        if let Some(pictures) = self.pictures.as_ref().filter(|_| prompt.len() < all_tokens) {
            remove_cut_pictures(&mut prompt, pictures.list());
        }
        tracing::debug!(model = self.model, tokens = prompt.len(), "generate");
        let cut_tokens = all_tokens - prompt.len();
        let shifts = cut != Cut::Never && chosen.context_shift == Some(ContextShift::Rope);
        let on_context_full = ContextFullPolicy {
            // If all tokens must stay, no shift is possible.
            shift_after_tokens: shifts.then(|| usize::try_from(keep_tokens).unwrap_or(self.context_tokens)),
            ..ContextFullPolicy::default()
        };
        let Chosen { sampling, stop, max_tokens, adapter_scale, .. } = chosen;
        let adapters = 0..self.adapters as u32;
        let adapters = Some(adapters.map(|adapter| AdapterUse { adapter, scale: adapter_scale }).collect());
        let pictures = self.pictures().to_vec();
        Ok((
            Request { prompt, pictures, sampling, stop, max_tokens, on_context_full, adapters, ..Request::default() },
            cut_tokens,
        ))
    }
}
