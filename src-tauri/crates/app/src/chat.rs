//! Chat: the next message of a conversation.

use std::time::{Instant, UNIX_EPOCH};

use cairn_prompt as prompt;
use cairn_runtime::{Lease, Request, Whose};
use cairn_tokenizer::Special;
use cairn_wire::{KeepAlive, Think};
use serde_json::{Map, Value};

use crate::catalog::Model;
use crate::options::{self, Chosen};
use crate::template::{self, Choice};
use crate::{Answer, App, Error, Reply, fit};

/// A conversation that wants its next message.
#[derive(Debug, Clone, Default)]
pub struct Chat {
    /// The model's name, as the client wrote it.
    pub model: String,
    /// The conversation so far; empty to load or unload the model.
    pub messages: Vec<Message>,
    /// Options of this request.
    pub options: Option<Map<String, Value>>,
    /// Whether the model is to think first; `None` leaves it to the model.
    pub think: Option<Think>,
    /// How long the model stays in memory afterwards; `None` leaves it to the settings.
    pub keep_alive: Option<KeepAlive>,
    /// Never drop messages that do not fit.
    pub whole: bool,
    /// Never cut a prompt that does not fit.
    pub no_shift: bool,
    /// Tell how likely each token was, and which this many were the likeliest at its place.
    pub logprobs: Option<usize>,
    /// Whose it is: what it may find computed, and what becomes of what it computes.
    pub whose: Whose,
    /// Only tell the prompt's text, as the model would read it.
    pub render_only: bool,
}

/// One message of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// `system`, `user` or `assistant`, or what else the model's template knows.
    pub role: String,
    /// Its text.
    pub content: String,
    /// What the model thought before it said this.
    pub thinking: Option<String>,
}

/// What renderings need besides the model.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rendering {
    /// The time that templates may print.
    now: prompt::Moment,
    /// As the settings have it.
    go_template: Option<bool>,
}

impl App {
    /// What renderings need besides the model. The time is UTC: the time zone is the reader's, and the daemon does not know
    /// it.
    pub(crate) fn rendering(&self) -> Rendering {
        let seconds = self.clock.now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let now = prompt::Moment::from_unix_s(i64::try_from(seconds).unwrap_or(i64::MAX));
        Rendering { now, go_template: self.settings.go_template }
    }

    /// Computes the next message.
    ///
    /// # Errors
    /// When there is no such model, it cannot be loaded, or the request makes no sense. Later failures come as events.
    pub async fn chat(&self, chat: Chat) -> Result<Reply, Error> {
        let started_at = Instant::now();
        let model = self.catalog.find(&chat.model)?;
        let chosen = options::choose(&model.params, chat.options.as_ref())?;
        if chat.messages.is_empty() {
            return self.load_or_unload(&model, &chosen, chat.keep_alive).await;
        }
        let lease = self.lease(&model, &chosen, false, chat.keep_alive).await?;
        let rendering = self.rendering();
        prepared(move || chat.prepare(&model, lease, chosen, rendering, started_at)).await
    }
}

impl Chat {
    fn prepare(
        self,
        model: &Model,
        lease: Lease,
        chosen: Chosen,
        rendering: Rendering,
        started_at: Instant,
    ) -> Result<Reply, Error> {
        let conversation = Conversation::new(model, &lease, rendering, &self.model, self.think)?;
        let first_is_system = self.messages.first().is_some_and(|message| message.role.eq_ignore_ascii_case("system"));
        let mut messages: Vec<prompt::Message> = model.messages.clone();
        if let Some(system) = model.system.as_ref().filter(|_| !first_is_system) {
            messages.insert(0, prompt::Message::new("system", system));
        }
        messages.extend(self.messages.into_iter().map(prompt::Message::from));
        let text = conversation.render_to_fit(messages, self.whole)?;
        if self.render_only {
            return Ok(Reply::Rendered(text));
        }
        let splitter = conversation.splitter(&text);
        let prompt = conversation.encode(&text, true);
        let request = conversation.request(prompt, chosen, self.no_shift)?;
        let request = Request { logprobs: self.logprobs, whose: self.whose, ..request };
        Ok(Reply::Answer(Box::new(Answer::new(lease, request, splitter, false, started_at))))
    }
}

/// Runs what turns messages into a prompt. Long ones take a while, in which the threads that serve other clients go on.
pub(crate) async fn prepared(prepare: impl FnOnce() -> Result<Reply, Error> + Send + 'static) -> Result<Reply, Error> {
    match tokio::task::spawn_blocking(prepare).await {
        Ok(reply) => reply,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The daemon is ending.
        Err(_) => Err(Error::EngineGone),
    }
}

/// The prompt of a model without a template: the texts and nothing else.
fn plain(messages: &[prompt::Message]) -> String {
    messages.iter().map(|message| message.content.as_str()).collect::<Vec<_>>().join("\n")
}

impl From<Message> for prompt::Message {
    fn from(message: Message) -> Self {
        Self { thinking: message.thinking, ..Self::new(message.role.to_lowercase(), message.content) }
    }
}

/// Does a model think for this request? `None` for one that cannot.
fn thinking(name: &str, can: bool, asked: Option<Think>) -> Result<Option<Think>, Error> {
    match (can, asked) {
        (true, asked) => Ok(Some(asked.unwrap_or(Think::Switch(true)))),
        (false, Some(think)) if think.is_on() => Err(Error::NoThinking(name.to_owned())),
        (false, _) => Ok(None),
    }
}

/// What turns messages into the tokens of a prompt for one loaded model.
pub(crate) struct Conversation<'a> {
    model: &'a Model,
    lease: &'a Lease,
    choice: Choice,
    now: prompt::Moment,
    /// As [`thinking`] has it.
    thinks: Option<Think>,
}

impl<'a> Conversation<'a> {
    /// Chooses the template of a model that a client calls `name`.
    pub(crate) fn new(
        model: &'a Model,
        lease: &'a Lease,
        rendering: Rendering,
        name: &str,
        think: Option<Think>,
    ) -> Result<Self, Error> {
        let choice = template::choose(model, lease.template(), rendering.go_template)?;
        tracing::debug!(model = model.summary.name, reason = choice.reason, "chat template");
        let thinks = thinking(name, choice.capabilities().thinking, think)?;
        Ok(Self { model, lease, choice, now: rendering.now, thinks })
    }

    /// The prompt's text, of as many messages as fit.
    pub(crate) fn render_to_fit(&self, messages: Vec<prompt::Message>, whole: bool) -> Result<String, Error> {
        if whole {
            return self.render(&messages);
        }
        let limit_tokens = self.lease.context_tokens() as usize;
        let count = |kept: &[prompt::Message]| Ok::<_, Error>(self.encode(&self.render(kept)?, true).len());
        let (kept, dropped) = fit::messages(&messages, limit_tokens, count)?;
        if dropped > 0 {
            tracing::warn!(dropped, kept = kept.len(), limit_tokens, "the oldest messages do not fit and were dropped");
        }
        self.render(&kept)
    }

    fn render(&self, messages: &[prompt::Message]) -> Result<String, Error> {
        let Some(template) = &self.choice.template else {
            return Ok(plain(messages));
        };
        let tokenizer = self.lease.tokenizer();
        let text = |id: Option<u32>| id.map(|id| String::from_utf8_lossy(tokenizer.piece_with_special(id)));
        let (bos, eos) = (text(tokenizer.bos()).unwrap_or_default(), text(tokenizer.eos()).unwrap_or_default());
        let input = prompt::Render {
            messages,
            tools: None,
            add_generation_prompt: true,
            bos_token: &bos,
            eos_token: &eos,
            thinking: self.thinks.map(|think| match think {
                Think::Switch(false) => prompt::Think::Off,
                Think::Switch(true) => prompt::Think::On,
                Think::Level(level) => prompt::Think::Level(level.as_str().to_owned()),
            }),
            now: self.now,
        };
        Ok(template.render(&input)?)
    }

    /// Tokens of a prompt; `starts` when nothing comes before it.
    pub(crate) fn encode(&self, text: &str, starts: bool) -> Vec<u32> {
        let tokenizer = self.lease.tokenizer();
        let mut tokens = tokenizer.encode(text, Special { add: starts, parse: true });
        // Many templates write the token for the beginning themselves, and the tokenizer adds it again.
        if let (Some(bos), [first, second, ..]) = (tokenizer.bos(), tokens.as_slice())
            && tokenizer.adds_bos()
            && *first == bos
            && *second == bos
        {
            tokens.remove(0);
        }
        tokens
    }

    /// What parts thinking from the answer, when the model thinks. Some templates open the thinking themselves.
    pub(crate) fn splitter(&self, prompt: &str) -> Option<prompt::ThinkingSplitter> {
        let (open, close) = self.choice.template.as_ref()?.thinking_tags()?;
        let starts_inside = prompt.trim_end().ends_with(open);
        self.thinks.is_some_and(Think::is_on).then(|| prompt::ThinkingSplitter::new(open, close, starts_inside))
    }

    /// The engine's request, its prompt cut to the context.
    pub(crate) fn request(&self, tokens: Vec<u32>, chosen: Chosen, no_shift: bool) -> Result<Request, Error> {
        let context_tokens = self.lease.context_tokens() as usize;
        let starts_with_bos = self.lease.tokenizer().adds_bos();
        let prompt = fit::prompt(tokens, context_tokens, chosen.keep_tokens, starts_with_bos, !no_shift)?;
        tracing::debug!(model = self.model.summary.name, tokens = prompt.len(), "generate");
        let Chosen { sampling, stop, max_tokens, .. } = chosen;
        Ok(Request { prompt, sampling, stop, max_tokens, ..Request::default() })
    }
}
