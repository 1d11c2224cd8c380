//! Generate: one prompt, one answer.

use std::time::Instant;

use cairn_prompt as prompt;
use cairn_runtime::{CacheScope, Lease, Request};
use cairn_wire::{KeepAlive, Think};
use serde_json::{Map, Value};

use super::answer::Answer;
use super::chat::{Conversation, Cut, Rendering, prepared};
use super::error::Error;
use super::handle::Inference;
use super::load::Reply;
use super::options::Chosen;
use super::overflow::{Overflow, Overflowing, Truncated};
use crate::library::catalog::Model;

/// A prompt that wants an answer.
#[derive(Debug, Clone, Default)]
pub struct Generate {
    /// The model's name, as the client wrote it.
    pub model: String,
    /// What is asked; empty to load or unload the model.
    pub prompt: String,
    /// A system message in place of the model's own.
    pub system: Option<String>,
    /// Tokens of an earlier answer, to go on from.
    pub context: Vec<i64>,
    /// The prompt goes in as it is, without the model's template.
    pub raw: bool,
    /// Options of this request.
    pub options: Option<Map<String, Value>>,
    /// Whether the model is to think first; `None` leaves it to the model.
    pub think: Option<Think>,
    /// How long the model stays in memory afterwards; `None` leaves it to the settings.
    pub keep_alive: Option<KeepAlive>,
    /// Never cut a prompt that does not fit, and end the answer where the context does.
    pub no_shift: bool,
    /// Refuse what does not fit, and leave nothing out of it.
    pub whole: bool,
    /// Tell how likely each token was, and which this many were the likeliest at its place.
    pub logprobs: Option<usize>,
    /// Whose it is: what it may find computed, and what becomes of what it computes.
    pub whose: CacheScope,
    /// Only tell the prompt's text, as the model would read it.
    pub render_only: bool,
}

impl Inference {
    /// Computes the answer to a prompt.
    ///
    /// # Errors
    /// When there is no such model, it cannot be loaded, or the request makes no sense. Later failures come as events.
    pub async fn generate(&self, generate: Generate) -> Result<Reply, Error> {
        let started_at = Instant::now();
        let model = self.library.find(&generate.model)?;
        let chosen = self.chosen(&model, generate.options.as_ref())?;
        let unload = generate.prompt.is_empty() && generate.keep_alive == Some(KeepAlive::ZERO);
        if generate.raw && !unload && (generate.system.is_some() || !generate.context.is_empty()) {
            return Err(Error::RawWithTemplate);
        }
        if generate.prompt.is_empty() {
            return self.load_or_unload(&model, &chosen, generate.keep_alive).await;
        }
        let lease = self.lease(&model, &chosen, false, generate.keep_alive).await?;
        let rendering = self.rendering();
        prepared(move || generate.prepare(&model, lease, chosen, rendering, started_at)).await
    }
}

impl Generate {
    fn prepare(
        self,
        model: &Model,
        lease: Lease,
        chosen: Chosen,
        rendering: Rendering,
        started_at: Instant,
    ) -> Result<Reply, Error> {
        let conversation = Conversation::new(model, &lease, rendering, &self.model, self.think)?;
        let mut tokens = known_tokens(&self.context, lease.tokenizer().vocab_size())?;
        let text = if self.raw {
            self.prompt
        } else {
            let mut messages: Vec<prompt::Message> = Vec::new();
            let system = self.system.or_else(|| model.system.clone()).filter(|text| !text.is_empty());
            messages.extend(system.map(|text| prompt::Message::new("system", text)));
            if tokens.is_empty() {
                messages.extend(model.messages.iter().cloned());
            }
            messages.push(prompt::Message::new("user", self.prompt));
            conversation.render(&messages)?
        };
        if self.render_only {
            return Ok(Reply::Rendered(text));
        }
        let splitter = conversation.splitter(&text);
        tokens.extend(conversation.encode(&text, tokens.is_empty()));
        let cut = if self.whole || self.no_shift { Cut::Never } else { Cut::After(0) };
        let (request, cut_tokens) = conversation.request(tokens, chosen, cut)?;
        let nothing = Truncated::none(Overflow::Prompt, conversation.context_tokens);
        let overflow = Overflowing {
            truncated: Truncated { tokens: cut_tokens, cut_tokens, ..nothing }.said(&conversation.model),
            context_tokens: conversation.context_tokens,
            model: conversation.model,
            turns: None,
        };
        let request = Request { logprobs: self.logprobs, scope: self.whose, ..request };
        Ok(Reply::Answer(Box::new(Answer::new(lease, request, splitter, !self.raw, overflow, started_at))))
    }
}

/// A client's tokens, each one that the model has.
fn known_tokens(context: &[i64], vocabulary: usize) -> Result<Vec<u32>, Error> {
    let known = |token: &i64| u32::try_from(*token).ok().filter(|id| (*id as usize) < vocabulary);
    context.iter().map(|token| known(token).ok_or(Error::ForeignContext(*token))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_tokens_are_refused() {
        assert_eq!(known_tokens(&[0, 9], 10).unwrap(), [0, 9], "all of them known");
        for token in [-1, 10, i64::MAX] {
            let error = known_tokens(&[0, token], 10).expect_err("the model has ten tokens").to_string();
            assert!(error.contains(&token.to_string()), "{error}");
        }
    }
}
