//! `cairn run`: a chat with a model, or a single prompt.
//!
//! With a prompt in the arguments or text on standard input, the model answers once; the text precedes the prompt.
//! Without either, a chat starts if standard input is a terminal. `cairn` without a verb chats with the model of the
//! last chat. An embedding model prints a vector instead of an answer.

mod embed;
mod footer;
mod format;
mod images;
mod last_model;
mod left_out;
mod prompt;
mod repl;
mod session;

use anyhow::{Context, anyhow, bail};
use cairn_wire::app::LoadRequest;
use cairn_wire::ollama::{GenerateChunk, GenerateRequest, PullRequest};
use cairn_wire::{KeepAlive, Think};
use tokio::runtime::Runtime;

use crate::client::{Client, is_not_found};
use crate::{CliContext, args, daemon, model, output, pull, terminal};
pub(crate) use prompt::Prompt;
use session::{AnswerOutcome, Session};

/// Chats with the model of the last chat.
pub(crate) fn chat_again(cli: &CliContext, runtime: &Runtime) -> anyhow::Result<()> {
    let client = runtime.block_on(daemon::connect_or_start(cli))?;
    let model = runtime.block_on(last_model::choose(cli, &client))?;
    run(cli, runtime, args::Run { model, ..args::Run::default() })
}

pub(crate) fn run(cli: &CliContext, runtime: &Runtime, args: args::Run) -> anyhow::Result<()> {
    let format = args.format.as_deref().map(format::parse).transpose()?;
    let keep_alive = args.keepalive.as_deref().map(KeepAlive::parse).transpose().context("--keepalive")?;
    let think = args.think.as_deref().map(parse_think).transpose()?;
    let prompt = Prompt::read(&args.prompt)?;
    let has_text = !prompt.text().is_empty();
    // As in `ollama run`, an empty prompt only loads the model, or unloads it with a keep-alive of zero.
    let only_loads = !has_text && !args.prompt.is_empty();
    if !has_text && !only_loads && !terminal::is_stdin_terminal() {
        bail!(
            "the prompt is missing; use `cairn run {0} \"Why?\"` or `echo Why? | cairn run {0}`. A chat needs a \
             terminal as standard input",
            args.model
        );
    }
    let client = runtime.block_on(daemon::connect_or_start(cli))?;
    let Target { name: model, embeds, continues_text } = runtime.block_on(find_model(&client, &args))?;
    if embeds {
        anyhow::ensure!(
            has_text || only_loads,
            "{0} is an embedding model and cannot chat; `cairn run {0} \"TEXT\"` prints the vector of a text",
            args.model
        );
        if args.force {
            runtime.block_on(load(&client, &model, true, without_zero(keep_alive)))?;
        }
        return runtime.block_on(embed::embed(&client, &model, &prompt.text(), &args, keep_alive));
    }
    if args.dimensions.is_some() || args.truncate.is_some() {
        output::note(&format!("--dimensions and --truncate have no effect: {} is no embedding model", args.model));
    }
    let load_keep_alive = if only_loads { keep_alive } else { without_zero(keep_alive) };
    runtime.block_on(load(&client, &model, args.force, load_keep_alive))?;
    if continues_text {
        output::note(model::NO_TEMPLATE);
    }
    if only_loads {
        return Ok(());
    }
    if client.is_own_daemon() {
        last_model::store(cli, &args.model);
    }
    let mut session = Session {
        client,
        model,
        messages: Vec::new(),
        format,
        system: None,
        options: serde_json::Map::new(),
        keep_alive,
        think,
        force: args.force,
        hides_thinking: args.hidethinking,
        wraps: !args.nowordwrap && terminal::is_stdout_terminal(),
        verbose: args.verbose,
        colours: terminal::is_stdout_terminal() && !cli.settings.environment.no_color,
        keeps_history: !cli.settings.environment.no_history,
    };
    if !has_text {
        return repl::chat(cli, runtime, &mut session);
    }
    match runtime.block_on(session.ask(&prompt))? {
        AnswerOutcome::Complete => Ok(()),
        AnswerOutcome::Interrupted => bail!("interrupted"),
    }
}

/// The model of a run.
struct Target {
    name: String,
    /// Whether it is an embedding model.
    embeds: bool,
    /// Whether it has no chat template.
    continues_text: bool,
}

/// Returns the model. Pulls it first if it is missing.
async fn find_model(client: &Client, args: &args::Run) -> anyhow::Result<Target> {
    let name = model::resolve(client, &args.model).await?;
    let mut shown = model::show(client, &name).await;
    if matches!(&shown, Err(error) if is_not_found(error)) && !model::is_path(&args.model) {
        output::note(&format!("{name} is not here yet"));
        let request = PullRequest { model: name.clone(), insecure: args.insecure, ..PullRequest::default() };
        pull::pull_with_progress(client, &request, false).await?;
        shown = model::show(client, &name).await;
    }
    let shown = shown?;
    let embeds = shown.capabilities.iter().any(|capability| capability == "embedding");
    Ok(Target { name, embeds, continues_text: shown.continues_text })
}

async fn load(client: &Client, model: &str, force: bool, keep_alive: Option<KeepAlive>) -> anyhow::Result<()> {
    if force {
        if !client.is_own_daemon() {
            bail!("--force needs Cairn's own daemon, but OLLAMA_HOST names another server");
        }
        let request = LoadRequest { model: model.to_owned(), force: true, keep_alive };
        return client.post_without_response("/app/load", &request).await;
    }
    let request = GenerateRequest { model: model.to_owned(), keep_alive, ..Default::default() };
    client.post::<_, GenerateChunk>("/api/generate", &request).await.map(drop)
}

/// Removes a keep-alive of zero, because a load request with zero unloads the model.
fn without_zero(keep_alive: Option<KeepAlive>) -> Option<KeepAlive> {
    keep_alive.filter(|keep_alive| *keep_alive != KeepAlive::ZERO)
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
    fn think_argument_is_switch_or_level() {
        assert_eq!(parse_think("false").unwrap(), Think::Switch(false), "a switch");
        assert!(parse_think("high").unwrap().is_on(), "a level");
        assert!(parse_think("hard").is_err(), "an unknown level");
    }

    #[test]
    fn keepalive_zero_does_not_unload_before_answer() {
        assert_eq!(without_zero(Some(KeepAlive::ZERO)), None, "the model stays loaded for the answer");
        assert_eq!(without_zero(Some(KeepAlive::Forever)), Some(KeepAlive::Forever), "other values are kept");
    }
}
