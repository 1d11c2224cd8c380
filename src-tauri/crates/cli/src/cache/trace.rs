//! `cairn cache trace`: the cached prefix of a prompt, and the reason for the miss after it.

use anyhow::{Context, bail};
use cairn_wire::app::{CacheTrace, CacheTraceRequest};
use cairn_wire::ollama::{ChatRequest, Message};

use super::label;
use crate::args::cache::Trace;
use crate::client::Client;
use crate::{output, run};

pub(super) async fn trace(client: &Client, args: &Trace, json: bool) -> anyhow::Result<()> {
    let prompt = match &args.file {
        Some(file) => {
            std::fs::read_to_string(file).with_context(|| format!("cannot read {} as text", file.display()))?
        }
        None => run::Prompt::read(&args.prompt)?.text(),
    };
    if prompt.is_empty() {
        bail!("the prompt is missing; pass one as an argument, on standard input or with --file");
    }
    let messages = if args.chat { conversation(&prompt)? } else { vec![user(prompt)] };
    let request = CacheTraceRequest { model: args.model.clone(), messages, raw: args.raw, options: None };
    let traced: CacheTrace = client.post("/app/cache/trace", &request).await?;
    match json || args.json {
        true => output::json(&traced),
        false => output::print(&text(&traced)),
    }
}

fn user(content: String) -> Message {
    Message { role: "user".to_owned(), content, ..Message::default() }
}

/// Parses a list of messages, or a request with such a list.
fn conversation(text: &str) -> anyhow::Result<Vec<Message>> {
    let messages = if text.trim_start().starts_with('[') {
        serde_json::from_str(text)
    } else {
        serde_json::from_str(text).map(|request: ChatRequest| request.messages)
    };
    let messages: Vec<Message> =
        messages.context("--chat: the text is neither a list of messages nor a chat request")?;
    if messages.is_empty() {
        bail!("--chat: the list of messages is empty");
    }
    Ok(messages)
}

fn text(traced: &CacheTrace) -> String {
    let CacheTrace { tokens, memory_tokens, kept_tokens, .. } = *traced;
    let mut text = format!("{tokens} prompt tokens\n{memory_tokens} in memory\n{kept_tokens} in the tiers");
    let tiers: Vec<String> =
        traced.tiers.iter().map(|tier| format!("{} from {}", tier.tokens, label(tier.tier))).collect();
    if !tiers.is_empty() {
        text += &format!(": {}", tiers.join(", "));
    }
    format!("{text}\n{}\n", reason_text(traced))
}

/// Describes the reason for the miss.
fn reason_text(traced: &CacheTrace) -> String {
    let have = traced.memory_tokens.max(traced.kept_tokens);
    match traced.reason.as_str() {
        "whole" => "all of it is there; only the last token is always computed".to_owned(),
        "changed" => {
            let at = traced.changed_at.unwrap_or(have);
            let kept = traced.kept_text.as_ref().map_or_else(|| "nothing more".to_owned(), |text| format!("{text:?}"));
            let asked =
                traced.asked_text.as_ref().map_or_else(|| "nothing more".to_owned(), |text| format!("{text:?}"));
            format!("changed at token {at}: cached {kept}, requested {asked}")
        }
        "ends" => format!("the cached prefix ends at token {have}"),
        "never" => "no cached prefix matches".to_owned(),
        "not_kept" => "this model is cached only while it is loaded".to_owned(),
        "evicted" => format!("rows from token {have} on were evicted"),
        "expired" => format!("rows from token {have} on have expired"),
        "deleted" => format!("rows from token {have} on were deleted"),
        "lost" => format!("rows from token {have} on are damaged or lost"),
        "other_arithmetic" => format!("rows from token {have} on were computed with different arithmetic"),
        "rounded" => format!("rows from token {have} on are stored with reduced precision only"),
        "suspect" => format!("the tier returned wrong data for the rows from token {have} on"),
        "away" => format!("the tier of the rows from token {have} on does not answer"),
        reason => reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_wire::app::{TierName, TierTokens};

    #[test]
    fn trace_text_shows_first_changed_token() {
        let traced = CacheTrace {
            tokens: 600,
            memory_tokens: 0,
            kept_tokens: 412,
            tiers: vec![TierTokens { tier: TierName::Ssd, tokens: 412 }],
            reason: "changed".to_owned(),
            changed_at: Some(412),
            kept_text: Some(" Monday".to_owned()),
            asked_text: Some(" Tuesday\n".to_owned()),
        };
        let expected = "600 prompt tokens\n0 in memory\n412 in the tiers: 412 from SSD\n\
                        changed at token 412: cached \" Monday\", requested \" Tuesday\\n\"\n";
        assert_eq!(text(&traced), expected, "position and texts");
        let ends = CacheTrace { kept_text: None, ..traced };
        assert!(text(&ends).contains("cached nothing more, requested"), "the cached prefix may end there");
    }

    #[test]
    fn trace_reasons_all_have_texts() {
        let reasons = "whole ends never not_kept evicted expired deleted lost other_arithmetic rounded suspect away";
        for reason in reasons.split(' ') {
            let traced = CacheTrace { reason: reason.to_owned(), ..CacheTrace::default() };
            assert_ne!(reason_text(&traced), reason, "{reason} has a text");
        }
    }

    #[test]
    fn conversation_is_message_list_or_request() {
        let check = |text: &str, count: Option<usize>| {
            assert_eq!(conversation(text).ok().map(|messages| messages.len()), count, "{text}");
        };
        check(r#"[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]"#, Some(2));
        check(r#" {"model":"m","messages":[{"role":"user","content":"a"}]}"#, Some(1));
        for text in ["", "[]", "{}", "hello", "[1]", r#"{"messages":7}"#] {
            check(text, None);
        }
    }
}
