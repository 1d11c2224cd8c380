//! How an answer ended, in the terms of the Anthropic API.

use cairn_app::inference::Finish;
use cairn_wire::anthropic::{StopReason, Usage};

/// Returns the token counts of an answer. Cached tokens are not input tokens in this API.
pub(super) fn usage(finish: &Finish) -> Usage {
    Usage {
        input_tokens: finish.usage.prompt_tokens.saturating_sub(finish.usage.cached_tokens),
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: finish.usage.cached_tokens,
        output_tokens: finish.usage.answer_tokens,
    }
}

/// Returns why an answer ended, and the stop sequence that ended it.
pub(super) fn stop(finish: Finish, has_tool_calls: bool) -> (StopReason, Option<String>) {
    match finish.stop {
        _ if finish.usage.length_reached => (StopReason::MaxTokens, None),
        _ if has_tool_calls => (StopReason::ToolUse, None),
        Some(stop) => (StopReason::StopSequence, Some(stop)),
        None => (StopReason::EndTurn, None),
    }
}
