//! `cairn cache trace`: what is kept of a prompt, and why it is not more.

use anyhow::{Context, bail};
use cairn_wire::app::{CacheTrace, CacheTraceRequest};
use cairn_wire::ollama::{ChatRequest, Message};

use super::args::Trace;
use super::label;
use crate::client::Client;
use crate::{output, run};

pub(super) async fn trace(client: &Client, args: &Trace, json: bool) -> anyhow::Result<()> {
    let text = match &args.file {
        Some(file) => {
            std::fs::read_to_string(file).with_context(|| format!("could not read {} as text", file.display()))?
        }
        None => run::whole_prompt(&args.prompt.join(" "))?
            .context("there is no prompt: give one, pipe one here, or name a file with --file")?,
    };
    let messages = if args.chat { conversation(&text)? } else { vec![user(text)] };
    let request = CacheTraceRequest { model: args.model.clone(), messages, raw: args.raw, options: None };
    let traced: CacheTrace = client.post("/app/cache/trace", &request).await?;
    match json || args.json {
        true => output::json(&traced),
        false => output::print(&said(&traced)),
    }
}

fn user(content: String) -> Message {
    Message { role: "user".to_owned(), content, ..Message::default() }
}

/// A list of messages, or a request that has one.
fn conversation(text: &str) -> anyhow::Result<Vec<Message>> {
    let messages = if text.trim_start().starts_with('[') {
        serde_json::from_str(text)
    } else {
        serde_json::from_str(text).map(|request: ChatRequest| request.messages)
    };
    let messages: Vec<Message> = messages.context("--chat: that is neither a list of messages nor a request")?;
    if messages.is_empty() {
        bail!("--chat: there is no message in it");
    }
    Ok(messages)
}

fn said(traced: &CacheTrace) -> String {
    let CacheTrace { tokens, memory_tokens, kept_tokens, .. } = *traced;
    let mut text = format!("{tokens} prompt tokens\n{memory_tokens} in memory\n{kept_tokens} in the tiers");
    let tiers: Vec<String> =
        traced.tiers.iter().map(|tier| format!("{} from {}", tier.tokens, label(tier.tier))).collect();
    if !tiers.is_empty() {
        text += &format!(": {}", tiers.join(", "));
    }
    format!("{text}\n{}\n", why(traced))
}

/// The reason in words.
fn why(traced: &CacheTrace) -> String {
    let have = traced.memory_tokens.max(traced.kept_tokens);
    match traced.reason.as_str() {
        "whole" => "all of it is there, but for the last token, which is always computed".to_owned(),
        "changed" => {
            let at = traced.changed_at.unwrap_or(have);
            let kept = traced.kept_text.as_ref().map_or_else(|| "nothing more".to_owned(), |text| format!("{text:?}"));
            let asked =
                traced.asked_text.as_ref().map_or_else(|| "nothing more".to_owned(), |text| format!("{text:?}"));
            format!("changed at token {at}: kept {kept}, asked {asked}")
        }
        "ends" => format!("what is kept ends at token {have}"),
        "never" => "nothing that begins like this is kept".to_owned(),
        "not_kept" => "nothing is kept of this model beyond its stay in memory".to_owned(),
        "evicted" => format!("from token {have} on it was kept, and had to go to make room"),
        "expired" => format!("from token {have} on it was kept, and was not used for too long"),
        "deleted" => format!("from token {have} on it was kept, and was deleted"),
        "lost" => format!("from token {have} on it was kept, and was damaged or lost"),
        "other_arithmetic" => format!("from token {have} on it was computed by another arithmetic than this machine's"),
        "rounded" => format!("from token {have} on it is only there rounded"),
        "suspect" => format!("from token {have} on its place gave something else under its name"),
        "away" => format!("from token {have} on its place does not answer"),
        reason => reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_wire::app::{TierName, TierTokens};

    #[test]
    fn the_token_that_changed_is_said() {
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
                        changed at token 412: kept \" Monday\", asked \" Tuesday\\n\"\n";
        assert_eq!(said(&traced), expected, "where and what");
        let ends = CacheTrace { kept_text: None, ..traced };
        assert!(said(&ends).contains("kept nothing more, asked"), "what is kept may end there");
    }

    #[test]
    fn every_reason_has_words() {
        let reasons = "whole ends never not_kept evicted expired deleted lost other_arithmetic rounded suspect away";
        for reason in reasons.split(' ') {
            let traced = CacheTrace { reason: reason.to_owned(), ..CacheTrace::default() };
            assert_ne!(why(&traced), reason, "{reason} is a word for programs");
        }
    }

    #[test]
    fn a_conversation_is_a_list_or_a_request() {
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
