//! Warnings of responses: what a request has and the server ignored, and what did not fit into the context. Each is named once in an
//! answer.

use std::collections::HashSet;

use cairn_app::inference::Finish;
use cairn_wire::{Overflow, Truncated, Usage, thousands};

/// How to enlarge the context.
const ADVICE: &str = "Set OLLAMA_CONTEXT_LENGTH or num_ctx to enlarge it, up to the model's limit";

/// Returns the warnings of a complete answer: ignored options, and tokens that were left out of the context.
pub(crate) fn of_answer(finish: &Finish) -> Vec<String> {
    let options = finish.ignored_options.iter().map(|name| format!("the option {name:?} is ignored"));
    options.chain(left_out(&finish.usage)).collect()
}

/// Adds the warnings of one of several answers that the other answers do not have.
pub(crate) fn add_of_answer(warnings: &mut Vec<String>, finish: &Finish) {
    let mut new = of_answer(finish);
    let present: HashSet<&String> = warnings.iter().collect();
    new.retain(|warning| !present.contains(warning));
    warnings.append(&mut new);
}

fn left_out(usage: &Usage) -> Option<String> {
    let Truncated { reason, tokens, images, context_tokens, .. } = usage.truncated?;
    let (left_out, context) = (thousands(tokens), thousands(context_tokens));
    if tokens == 0 {
        let images = if images == 1 { "1 image".to_owned() } else { format!("{} images", thousands(images.into())) };
        return Some(format!("the model does not see {images}: its chat template does not show them"));
    }
    let images = match images {
        0 => String::new(),
        1 => " and 1 image".to_owned(),
        images => format!(" and {} images", thousands(images.into())),
    };
    Some(match reason {
        Overflow::PromptTooLong => {
            let all = thousands(usage.prompt_tokens.saturating_add(tokens));
            format!(
                "prompt cut: {left_out} of {all} tokens{images} left out; the context is {context} tokens. {ADVICE}"
            )
        }
        Overflow::ContextFull => {
            format!(
                "context full: {left_out} earlier tokens{images} left out; the context is {context} tokens. {ADVICE}"
            )
        }
    })
}

/// Returns the warnings of ignored tools, by their types.
pub(crate) fn of_tools(kinds: &[&str]) -> Vec<String> {
    let warning = |kind| format!("the tool {kind:?} is ignored, because this server runs no tools");
    kinds.iter().map(warning).collect()
}

/// Returns the warnings of ignored fields.
pub(crate) fn of_fields(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| format!("the field {name:?} is ignored")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn left_out_tokens_are_a_warning_with_the_remedy() {
        let check = |reason: Overflow, expected: &str| {
            let truncated = Truncated { tokens: 12_345, ..Truncated::empty(reason, 4096) };
            let usage = Usage { prompt_tokens: 4_000, truncated: Some(truncated), ..Usage::default() };
            assert_eq!(left_out(&usage).as_deref(), Some(expected));
        };
        check(
            Overflow::PromptTooLong,
            "prompt cut: 12,345 of 16,345 tokens left out; the context is 4,096 tokens. \
             Set OLLAMA_CONTEXT_LENGTH or num_ctx to enlarge it, up to the model's limit",
        );
        check(
            Overflow::ContextFull,
            "context full: 12,345 earlier tokens left out; the context is 4,096 tokens. \
             Set OLLAMA_CONTEXT_LENGTH or num_ctx to enlarge it, up to the model's limit",
        );
        assert_eq!(left_out(&Usage::default()), None, "the whole prompt fits");
        let unseen = Truncated { images: 1, ..Truncated::empty(Overflow::PromptTooLong, 4096) };
        let warning = left_out(&Usage { truncated: Some(unseen), ..Usage::default() }).expect("a warning");
        assert!(warning.contains("does not see 1 image: its chat template"), "the context is not the cause: {warning}");
        for (images, expected) in
            [(1, "prompt cut: 7 of 7 tokens and 1 image left out;"), (2, " and 2 images left out;")]
        {
            let truncated = Truncated { tokens: 7, images, ..Truncated::empty(Overflow::PromptTooLong, 4096) };
            let warning = left_out(&Usage { truncated: Some(truncated), ..Usage::default() }).expect("a warning");
            assert!(warning.contains(expected), "{warning}");
        }
    }
}
