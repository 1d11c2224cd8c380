//! Generate: computes the answer to one prompt.

use std::time::Instant;

use cairn_grammar::Constraint;
use cairn_prompt as prompt;
use cairn_runtime::{CacheScope, Lease, Request};
use serde_json::{Map, Value};

use super::answer::Answer;
use super::conversation::{Conversation, Cut, Parsing, Rendering, constraint};
use super::error::Error;
use super::handle::Inference;
use super::load::{Reply, check_answers};
use super::local_answer::LocalAnswer;
use super::location::ModelLocation;
use super::options::Chosen;
use super::overflow::{OverflowState, logged};
use super::prompt_work::{Waiting, run_prompt_work};
use crate::library::catalog::Model;
use crate::values::{KeepAlive, Overflow, Think, Truncated};

/// Request for the answer to a prompt.
#[derive(Debug, Clone, Default)]
pub struct Generate {
    /// The model's name, as the client wrote it.
    pub model: String,
    /// The prompt; empty to load or unload the model.
    pub prompt: String,
    /// Text after the answer: the model fills in the text between the prompt and this one.
    pub suffix: Option<String>,
    /// Go template that replaces the model's own.
    pub template: Option<String>,
    /// Images of the prompt.
    pub images: Vec<prompt::Image>,
    /// System message that replaces the model's own.
    pub system: Option<String>,
    /// Token ids of an earlier answer to continue.
    pub context: Vec<i64>,
    /// Use the prompt without the model's template.
    pub raw: bool,
    /// What the text of the answer must match. Reasoning before it is free.
    pub format: Option<Constraint>,
    /// Options of this request.
    pub options: Option<Map<String, Value>>,
    /// Whether the model thinks first; `None` for the model's default.
    pub think: Option<Think>,
    /// How long the model stays loaded afterwards; `None` for the time of an earlier request, or else that of the settings.
    pub keep_alive: Option<KeepAlive>,
    /// Never cut a prompt, and end the answer when the context is full.
    pub no_shift: bool,
    /// Refuse a prompt that does not fit, instead of cutting it.
    pub whole: bool,
    /// Return the log probability of each token, and this many alternatives.
    pub logprobs: Option<usize>,
    /// Cache scope: which rows the request may use, and who owns the new ones.
    pub scope: CacheScope,
    /// Only render the prompt.
    pub render_only: bool,
}

impl Inference {
    /// Starts the computation of the answer to a prompt.
    ///
    /// # Errors
    /// If the model does not exist or cannot be loaded, or the request is invalid. Later failures are events.
    pub async fn generate(&self, generate: Generate) -> Result<Reply, Error> {
        let started_at = Instant::now();
        let model = match self.locate(&generate.model).await? {
            ModelLocation::Local(model) => model,
            ModelLocation::Remote(targets) => return self.generate_at_remote(generate, targets, started_at).await,
        };
        let chosen = self.chosen(&model, generate.options.as_ref())?;
        let unload = generate.prompt.is_empty() && generate.keep_alive == Some(KeepAlive::ZERO);
        if generate.raw && !unload && (generate.system.is_some() || !generate.context.is_empty()) {
            return Err(Error::RawWithTemplate);
        }
        if generate.prompt.is_empty() {
            return self.load_or_unload(&model, &chosen, generate.keep_alive).await;
        }
        let lease = self.lease(&model, &chosen, false, generate.keep_alive).await?;
        check_answers(&lease, &generate.model, "generate")?;
        let rendering = self.rendering();
        let has_images = !generate.images.is_empty();
        let prepare = move |waiting: &Waiting| generate.prepare(&model, lease, chosen, rendering, started_at, waiting);
        Ok(run_prompt_work(has_images, prepare).await?.counted_in(&self.cache))
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
        waiting: &Waiting,
    ) -> Result<Reply, Error> {
        let conversation = Conversation::new(model, &lease, rendering, &self.model, self.think)?;
        let mut asked = [prompt::Message { images: self.images, ..prompt::Message::new("user", self.prompt) }];
        let conversation = conversation.with_images(&lease, &mut asked, None, waiting)?;
        let [asked] = asked;
        let conversation = match self.template.filter(|text| !text.is_empty()) {
            Some(source) => conversation.with_template(&source)?,
            None => conversation,
        };
        let mut tokens = check_tokens(&self.context, lease.tokenizer().vocab_size())?;
        let text = if self.raw {
            asked.content
        } else if let Some(suffix) = self.suffix.filter(|text| !text.is_empty()) {
            conversation.insert(&asked.content, &suffix)?
        } else {
            let mut messages: Vec<prompt::Message> = Vec::new();
            let system = self.system.or_else(|| model.system.clone()).filter(|text| !text.is_empty());
            messages.extend(system.map(|text| prompt::Message::new("system", text)));
            if tokens.is_empty() {
                messages.extend(model.messages.iter().cloned());
            }
            messages.push(asked);
            conversation.render(&messages)?
        };
        if self.render_only {
            return Ok(Reply::Rendered(conversation.readable(text)));
        }
        // The text of a raw prompt is not that of a template.
        let (parser, visible_tokens, thinking) = match self.raw {
            true => (None, Vec::new(), None),
            false => {
                let Parsing { parser, visible_tokens, thinking } = conversation.parsing(&text);
                (Some(parser), visible_tokens, thinking)
            }
        };
        let constraint = constraint(&lease, self.format, thinking)?;
        tokens.extend(conversation.encode(&text, tokens.is_empty()));
        let cut = if self.whole || self.no_shift { Cut::Never } else { Cut::After(0) };
        let ignored = chosen.ignored.clone();
        let (request, cut_tokens) = conversation.request(tokens, chosen, cut)?;
        let (cut_tokens, context_tokens) = (cut_tokens as u64, conversation.context_tokens as u64);
        let images = conversation.lost_images(&request.prompt);
        let nothing = Truncated::empty(Overflow::PromptTooLong, context_tokens);
        let overflow = OverflowState {
            truncated: logged(Truncated { tokens: cut_tokens, cut_tokens, images, ..nothing }, &conversation.model),
            context_tokens,
            model: conversation.model,
            turns: None,
        };
        let request = Request { logprobs: self.logprobs, scope: self.scope, visible_tokens, constraint, ..request };
        let answer = LocalAnswer::new(lease, request, parser, !self.raw, overflow, started_at);
        Ok(Reply::Answer(Box::new(Answer::local(answer.with_ignored_options(ignored)))))
    }
}

/// Checks that the model has all token ids of a client.
fn check_tokens(context: &[i64], vocabulary: usize) -> Result<Vec<u32>, Error> {
    let check = |token: &i64| u32::try_from(*token).ok().filter(|id| (*id as usize) < vocabulary);
    context.iter().map(|token| check(token).ok_or(Error::ForeignContext(*token))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_with_unknown_tokens_is_refused() {
        assert_eq!(check_tokens(&[0, 9], 10).unwrap(), [0, 9], "the model has all of them");
        for token in [-1, 10, i64::MAX] {
            let error = check_tokens(&[0, token], 10).expect_err("the model has ten tokens").to_string();
            assert!(error.contains(&token.to_string()), "{error}");
        }
    }
}
