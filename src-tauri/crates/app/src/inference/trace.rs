//! Explains a cache miss: how much of a prompt is cached, and where it differs from cached tokens.

use std::sync::Arc;

use crate::values::Think;
use cairn_runtime::{Lease, PrefixLookup, PromptPicture};
use cairn_tier::TierKind;
use cairn_tier::tiers::{MissReason, RemovalReason};
use serde_json::{Map, Value};

use super::conversation::{Conversation, Cut, Rendering, with_model_messages};
use super::error::Error;
use super::handle::Inference;
use super::location::ModelLocation;
use super::prompt_work::run_prompt_work;
use cairn_prompt::Message;

/// A prompt to look up.
#[derive(Debug, Clone, Default)]
pub struct TracePrompt {
    /// The model's name.
    pub model: String,
    /// A conversation.
    pub messages: Vec<Message>,
    /// Use the first message as the prompt, without the model's template.
    pub raw: bool,
    /// Tools that the model may call, in the format of OpenAI's API; empty for none.
    pub tools: Vec<Value>,
    /// Options of the request.
    pub options: Option<Map<String, Value>>,
    /// Whether the model thinks first.
    pub think: Option<Think>,
    /// Whether a model that cannot think ignores `think`, instead of refusing the request.
    pub is_think_optional: bool,
}

/// Result of a lookup.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Traced {
    /// Tokens of the whole prompt, even if it is longer than the context.
    pub tokens: usize,
    /// Tokens whose rows the loaded model has.
    pub memory_tokens: usize,
    /// Tokens whose rows the tiers have.
    pub kept_tokens: usize,
    /// Tokens by tier.
    pub places: Vec<(TierKind, usize)>,
    /// Reason of the miss, as a word: `whole`, `changed`, `never`, ...
    pub reason: &'static str,
    /// Position of the first different token.
    pub changed_at: Option<usize>,
    /// Cached text at this position; `None` if the cached prefix ends there.
    pub kept_text: Option<String>,
    /// Text of the prompt at this position.
    pub asked_text: Option<String>,
}

impl Inference {
    /// Looks up a prompt as a request would, without computing it. Loads the model for its tokenizer.
    ///
    /// # Errors
    /// If the model does not exist or cannot be loaded, or the prompt cannot be rendered.
    pub async fn trace(&self, trace: TracePrompt) -> Result<Traced, Error> {
        let model = match self.locate(&trace.model).await? {
            ModelLocation::Local(model) => model,
            ModelLocation::Remote(_) => {
                return Err(Error::Unsupported("counting and tracing the tokens of a remote's model"));
            }
        };
        let chosen = self.chosen(&model, trace.options.as_ref())?;
        let lease = self.lease(&model, &chosen, false, None).await?;
        let rendering = Rendering { is_think_optional: trace.is_think_optional, ..self.rendering() };
        let has_images = trace.messages.iter().any(|message| !message.images.is_empty());
        run_prompt_work(has_images, move |waiting| {
            let conversation = Conversation::new(&model, &lease, rendering, &trace.model, trace.think)?;
            let conversation = conversation.with_tools(trace.tools)?;
            let mut messages = if trace.raw { trace.messages } else { with_model_messages(&model, trace.messages) };
            let conversation = conversation.with_images(&lease, &mut messages, None, waiting)?;
            let (tokens, cut, all_tokens) = if trace.raw {
                let text: String = messages.into_iter().map(|message| message.content).collect();
                let tokens = conversation.encode(&text, true);
                let all_tokens = tokens.len();
                (tokens, Cut::After(0), all_tokens)
            } else {
                let fitted = conversation.fit(messages, false)?;
                let cut = conversation.cut(&fitted.messages, &fitted.rendered.tokens, &chosen)?;
                (fitted.rendered.tokens, cut, fitted.all_tokens)
            };
            let tokens = conversation.request(tokens, chosen, cut)?.0.prompt;
            let found = lease.lookup_prefix(&tokens, conversation.pictures(), None::<Arc<str>>);
            Ok(Traced { tokens: all_tokens, ..traced(&lease, &tokens, found) })
        })
        .await
    }
}

/// Looks up a prompt and returns [`Traced::reason`]. Blocks.
pub(super) fn miss_reason(
    lease: &Lease,
    tokens: &[u32],
    pictures: &[PromptPicture],
    scope: Option<Arc<str>>,
) -> &'static str {
    traced(lease, tokens, lease.lookup_prefix(tokens, pictures, scope)).reason
}

fn traced(lease: &Lease, tokens: &[u32], lookup: PrefixLookup) -> Traced {
    let text = |id: u32| String::from_utf8_lossy(lease.tokenizer().piece_with_special(id)).into_owned();
    let asked = |at: usize| tokens.get(at).copied().map(text);
    let PrefixLookup { memory_tokens, memory_next, tiers } = lookup;
    let kept_tokens = tiers.as_ref().map_or(0, |trace| trace.coverage.tokens());
    let places = tiers.as_ref().map_or_else(Vec::new, |trace| {
        let mut places: Vec<(TierKind, usize)> = Vec::new();
        for step in trace.coverage.steps(0..kept_tokens) {
            match places.iter_mut().find(|(place, _)| *place == step.tier) {
                Some((_, tokens)) => *tokens += step.rows,
                None => places.push((step.tier, step.rows)),
            }
        }
        places
    });
    let base = Traced { tokens: tokens.len(), memory_tokens, kept_tokens, places, ..Traced::default() };
    let changed = |at: usize, kept: Option<u32>| Traced {
        reason: "changed",
        changed_at: Some(at),
        kept_text: kept.map(text),
        asked_text: asked(at),
        ..base.clone()
    };
    // The last token is always computed.
    if base.memory_tokens.max(base.kept_tokens) + 1 >= tokens.len() {
        return Traced { reason: "whole", ..base };
    }
    if memory_tokens >= kept_tokens && memory_next.is_some() {
        return changed(memory_tokens, memory_next);
    }
    let reason = match tiers.map(|trace| trace.reason) {
        Some(MissReason::Diverged { position: at, stored: kept, .. }) if at >= memory_tokens => {
            return changed(at, kept.and_then(cairn_tier::Key::as_token));
        }
        None if memory_tokens == 0 => "not_kept",
        _ if memory_tokens > kept_tokens => "ends",
        None => "not_kept",
        Some(MissReason::FullHit) => "whole",
        Some(MissReason::NumericClass(_)) => "other_arithmetic",
        Some(MissReason::Lossy) => "rounded",
        Some(MissReason::Mismatch) => "suspect",
        Some(MissReason::Unavailable(_)) => "away",
        Some(MissReason::Removed(RemovalReason::Evicted)) => "evicted",
        Some(MissReason::Removed(RemovalReason::Expired)) => "expired",
        Some(MissReason::Removed(RemovalReason::Deleted)) => "deleted",
        Some(MissReason::Removed(RemovalReason::Damaged | RemovalReason::Lost | RemovalReason::Replaced)) => "lost",
        Some(MissReason::NeverStored | MissReason::Diverged { .. }) if kept_tokens > 0 => "ends",
        Some(MissReason::NeverStored | MissReason::Diverged { .. }) => "never",
    };
    Traced { reason, ..base }
}
