//! Chat: computes the next message of a conversation.

use std::time::Instant;

use cairn_grammar::Constraint;
use cairn_prompt as prompt;
use cairn_runtime::{CacheScope, ContextFullPolicy, Lease, Request};
use serde_json::{Map, Value};

use super::answer::Answer;
use super::conversation::{AnswerPrefix, Conversation, Cut, Parsing, Rendering, constraint, with_model_messages};
use super::error::Error;
use super::fit::Fitted;
use super::handle::Inference;
use super::load::{Reply, check_answers};
use super::local_answer::LocalAnswer;
use super::location::ModelLocation;
use super::options::{self, Chosen};
use super::overflow::{OverflowState, Turns, logged};
use super::prompt_work::{Waiting, run_prompt_work};
use super::tool_use::ToolUse;
use super::trace;
use crate::library::catalog::Model;
use crate::values::{KeepAlive, Overflow, Think, Truncated};

/// Request for the next message of a conversation.
#[derive(Debug, Clone, Default)]
pub struct Chat {
    /// The model's name, as the client wrote it.
    pub model: String,
    /// The conversation; empty to load or unload the model.
    pub messages: Vec<prompt::Message>,
    /// Tools that the model may call, in the format of OpenAI's API; empty for none.
    pub tools: Vec<Value>,
    /// Which calls the answer has, if there are tools.
    pub tool_use: ToolUse,
    /// What the text of the answer must match, unless it calls tools. Reasoning before it is free.
    pub format: Option<Constraint>,
    /// Options of this request.
    pub options: Option<Map<String, Value>>,
    /// Whether the model thinks first; `None` for the model's default.
    pub think: Option<Think>,
    /// Whether a model that cannot think ignores `think`, instead of refusing the request.
    pub is_think_optional: bool,
    /// How long the model stays loaded afterwards; `None` for the time of an earlier request, or else that of the settings.
    pub keep_alive: Option<KeepAlive>,
    /// Refuse a prompt that does not fit, instead of dropping messages.
    pub whole: bool,
    /// Never cut a prompt, and end the answer when the context is full.
    pub no_shift: bool,
    /// Return the log probability of each token, and this many alternatives.
    pub logprobs: Option<usize>,
    /// Cache scope: which rows the request may use, and who owns the new ones.
    pub scope: CacheScope,
    /// Only render the prompt.
    pub render_only: bool,
    /// Text of an earlier answer to continue.
    pub prefix: Option<AnswerPrefix>,
    /// Text in place of each image, if the model cannot see. Without it, images are refused then.
    pub unseen_images: Option<&'static str>,
    /// Look up why the cached prefix of the prompt ends, for [`Usage::recomputed`](crate::values::Usage::recomputed).
    pub explain_miss: bool,
}

impl Inference {
    /// Merges the options of a request over the model's over the settings'.
    pub(crate) fn chosen(&self, model: &Model, request: Option<&Map<String, Value>>) -> Result<Chosen, Error> {
        let chosen = options::choose(&model.params, request)?;
        Ok(Chosen { context_shift: chosen.context_shift.or(self.settings.engine.context_shift), ..chosen })
    }

    /// Starts the computation of the next message.
    ///
    /// # Errors
    /// If the model does not exist or cannot be loaded, or the request is invalid. Later failures are events.
    pub async fn chat(&self, chat: Chat) -> Result<Reply, Error> {
        let started_at = Instant::now();
        let model = match self.locate(&chat.model).await? {
            ModelLocation::Local(model) => model,
            ModelLocation::Remote(targets) => return self.chat_at_remote(chat, targets, started_at).await,
        };
        let chosen = self.chosen(&model, chat.options.as_ref())?;
        if chat.messages.is_empty() {
            return self.load_or_unload(&model, &chosen, chat.keep_alive).await;
        }
        let lease = self.lease(&model, &chosen, false, chat.keep_alive).await?;
        check_answers(&lease, &chat.model, "chat")?;
        let rendering = self.rendering();
        let has_images = chat.messages.iter().any(|message| !message.images.is_empty());
        let prepare = move |waiting: &Waiting| chat.prepare(&model, lease, chosen, rendering, started_at, waiting);
        Ok(run_prompt_work(has_images, prepare).await?.counted_in(&self.cache))
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
        waiting: &Waiting,
    ) -> Result<Reply, Error> {
        let rendering = Rendering { is_think_optional: self.is_think_optional, ..rendering };
        let conversation = Conversation::new(model, &lease, rendering, &self.model, self.think)?;
        let conversation = conversation.with_prefix(self.prefix).with_tools(self.tools)?;
        let mut messages = with_model_messages(model, self.messages);
        let conversation = conversation.with_images(&lease, &mut messages, self.unseen_images, waiting)?;
        let fitted = conversation.fit(messages, self.whole)?;
        if self.render_only {
            return Ok(Reply::Rendered(conversation.readable(fitted.rendered.text)));
        }
        let Parsing { parser, visible_tokens, thinking } = conversation.parsing(&fitted.rendered.text);
        let expected = conversation.expected(self.format, self.tool_use)?;
        let constraint = constraint(&lease, expected, thinking)?;
        let parser = if constraint.is_some() { parser.ending_at_tag() } else { parser };
        let Fitted { messages, rendered, turns, dropped, all_tokens } = fitted;
        let cut = match self.whole || self.no_shift {
            true => Cut::Never,
            false => conversation.cut(&messages, &rendered.tokens, &chosen)?,
        };
        let ignored = chosen.ignored.clone();
        let (request, cut_tokens) = conversation.request(rendered.tokens, chosen, cut)?;
        let truncated = Truncated {
            turns: turns as u64,
            messages: dropped as u64,
            tokens: (all_tokens - request.prompt.len()) as u64,
            cut_tokens: cut_tokens as u64,
            images: conversation.lost_images(&request.prompt),
            ..Truncated::empty(Overflow::PromptTooLong, conversation.context_tokens as u64)
        };
        let on_context_full = ContextFullPolicy { request_prompt: cut != Cut::Never, ..request.on_context_full };
        let cache_miss = self
            .explain_miss
            .then(|| trace::miss_reason(&lease, &request.prompt, &request.pictures, self.scope.name.clone()));
        let request = Request {
            logprobs: self.logprobs,
            scope: self.scope,
            on_context_full,
            visible_tokens,
            constraint,
            ..request
        };
        let overflow = OverflowState {
            truncated: logged(truncated, &conversation.model),
            model: conversation.model.clone(),
            context_tokens: conversation.context_tokens as u64,
            turns: Some(Turns::new(conversation, messages, &request.prompt)),
        };
        let answer = LocalAnswer::new(lease, request, Some(parser), false, overflow, started_at);
        let answer = answer.with_cache_miss(cache_miss).with_tool_use(self.tool_use).with_ignored_options(ignored);
        Ok(Reply::Answer(Box::new(Answer::local(answer))))
    }
}
