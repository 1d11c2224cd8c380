//! `cairn run`: a chat with a model, or one question.
//!
//! A prompt in the arguments, or text on standard input, makes it one question; the text comes before the prompt. Else a
//! terminal begins a chat.

mod footer;
mod left_out;
pub(crate) mod model;
mod repl;
mod session;

use std::io::Read;

use anyhow::{Context, anyhow, bail};
use cairn_wire::app::LoadRequest;
use cairn_wire::ollama::{GenerateChunk, GenerateRequest, PullRequest};
use cairn_wire::{KeepAlive, Think};
use tokio::runtime::Runtime;

use crate::client::Client;
use crate::{Setting, args, daemon, output, pull, stop, terminal};
use session::{Heard, Session};

pub(crate) fn run(setting: &Setting, runtime: &Runtime, args: args::Run) -> anyhow::Result<()> {
    if args.format.is_some() {
        bail!("structured output (--format) is not supported yet by this version of Cairn");
    }
    let keep_alive = args.keepalive.as_deref().map(KeepAlive::parse).transpose().context("--keepalive")?;
    let think = args.think.as_deref().map(parse_think).transpose()?;
    let prompt = whole_prompt(&args.prompt.join(" "))?;
    // An empty prompt is one, as for `ollama run`: it loads the model, or unloads it when nothing is to be kept.
    let only_loads = prompt.is_none() && !args.prompt.is_empty();
    if prompt.is_none() && !only_loads && !terminal::is_typed() {
        bail!(
            "there is no prompt: give one, as in `cairn run {0} \"Why?\"` or `echo Why? | cairn run {0}`; \
             a chat begins where standard input is a terminal",
            args.model
        );
    }
    let client = runtime.block_on(daemon::reach(setting))?;
    let while_loading = if only_loads { keep_alive } else { load_keep_alive(keep_alive) };
    let model = runtime.block_on(ready(&client, &args, while_loading))?;
    if only_loads {
        return Ok(());
    }
    let mut session = Session {
        client,
        model,
        messages: Vec::new(),
        system: None,
        options: serde_json::Map::new(),
        keep_alive,
        think,
        force: args.force,
        hides_thinking: args.hidethinking,
        wraps: !args.nowordwrap && terminal::is_watched(),
        verbose: args.verbose,
        colours: terminal::is_watched() && !setting.settings.environment.no_color,
        keeps_history: true,
    };
    match prompt {
        Some(prompt) => match runtime.block_on(session.ask(&prompt))? {
            Heard::All => Ok(()),
            Heard::Interrupted => bail!("interrupted"),
        },
        None => repl::chat(setting, runtime, &mut session),
    }
}

/// The model's name, once it is in memory. One that is not here is pulled first.
async fn ready(client: &Client, args: &args::Run, keep_alive: Option<KeepAlive>) -> anyhow::Result<String> {
    let model::Named { name: model, lacks_template } = model::name(client, &args.model).await?;
    let mut loaded = load(client, &model, args.force, keep_alive).await;
    if matches!(&loaded, Err(error) if stop::is_not_found(error)) && !model::is_path(&args.model) {
        output::note(&format!("{model} is not here yet"));
        let request = PullRequest { model: model.clone(), insecure: args.insecure, ..PullRequest::default() };
        pull::watched(client, &request, false).await?;
        loaded = load(client, &model, args.force, keep_alive).await;
    }
    loaded?;
    if lacks_template {
        output::note(model::NO_TEMPLATE);
    }
    Ok(model)
}

async fn load(client: &Client, model: &str, force: bool, keep_alive: Option<KeepAlive>) -> anyhow::Result<()> {
    if force {
        if !client.is_ours() {
            bail!("--force needs Cairn's own daemon, and OLLAMA_HOST names another server");
        }
        let request = LoadRequest { model: model.to_owned(), force: true, keep_alive };
        return client.tell("/app/load", &request).await;
    }
    let request = GenerateRequest { model: model.to_owned(), keep_alive, ..Default::default() };
    client.post::<_, GenerateChunk>("/api/generate", &request).await.map(drop)
}

/// Loading with zero would unload.
fn load_keep_alive(keep_alive: Option<KeepAlive>) -> Option<KeepAlive> {
    keep_alive.filter(|keep_alive| *keep_alive != KeepAlive::ZERO)
}

/// Standard input, if it is no terminal, and the prompt; `None` when there is neither.
pub(crate) fn whole_prompt(prompt: &str) -> anyhow::Result<Option<String>> {
    let mut piped = String::new();
    if !terminal::is_typed() {
        std::io::stdin().read_to_string(&mut piped).context("standard input cannot be read as text")?;
    }
    let parts: Vec<&str> = [piped.trim_end(), prompt].into_iter().filter(|part| !part.trim().is_empty()).collect();
    Ok((!parts.is_empty()).then(|| parts.join(" ")))
}

fn parse_think(text: &str) -> anyhow::Result<Think> {
    match text {
        "true" => Ok(Think::Switch(true)),
        "false" => Ok(Think::Switch(false)),
        level => Think::from_level(level)
            .ok_or_else(|| anyhow!("invalid --think value {level:?} (must be high, medium, low, max, true or false)")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinking_words() {
        assert_eq!(parse_think("false").unwrap(), Think::Switch(false), "a switch");
        assert!(parse_think("high").unwrap().is_on(), "a level");
        assert!(parse_think("hard").is_err(), "no word of ours");
    }

    #[test]
    fn nothing_to_keep_does_not_unload_before_the_answer() {
        assert_eq!(load_keep_alive(Some(KeepAlive::ZERO)), None, "the load waits for the answer");
        assert_eq!(load_keep_alive(Some(KeepAlive::Forever)), Some(KeepAlive::Forever), "all else is passed on");
    }
}
