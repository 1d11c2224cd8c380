//! `cairn remote`: other servers with models that the daemon serves.

use anyhow::bail;
use cairn_wire::app::{
    AddRemoteRequest, CheckRemotesRequest, Remote as Row, RemoteState, RemotesResponse, RemoveRemoteRequest,
};

use crate::args::Json;
use crate::args::remote::{Remote, RemoteVerb};
use crate::table::{render, row};
use crate::{CliContext, daemon, login, output};

/// Names of models in a list before the rest is counted.
const LISTED_MODELS: usize = 3;

pub(crate) async fn remote(cli: &CliContext, args: &Remote) -> anyhow::Result<()> {
    let client = daemon::connect_or_start(cli).await?;
    client.require_own_daemon("a remote")?;
    match &args.verb {
        RemoteVerb::Add { name, url, key, insecure, json } => {
            let key = if *key { Some(login::read_secret("API key: ").await?) } else { None };
            if key.as_ref().is_some_and(String::is_empty) {
                bail!("the API key is empty; nothing was stored");
            }
            let request = AddRemoteRequest { name: name.clone(), url: url.clone(), key, insecure: *insecure };
            let listed: RemotesResponse = client.post("/app/remotes", &request).await?;
            print(only(listed, Some(name)), *json)
        }
        RemoteVerb::List(Json { json }) => print(client.get("/app/remotes").await?, *json),
        RemoteVerb::Remove { name } => {
            let request = RemoveRemoteRequest { name: name.clone() };
            let _: RemotesResponse = client.post("/app/remotes/remove", &request).await?;
            output::print(&format!("removed {name}\n"))
        }
        RemoteVerb::Check { name, json } => {
            let request = CheckRemotesRequest { name: name.clone() };
            let checked = only(client.post("/app/remotes/check", &request).await?, name.as_ref());
            let down: Vec<&str> = checked
                .remotes
                .iter()
                .filter(|remote| remote.state != RemoteState::Up)
                .map(|remote| &*remote.name)
                .collect();
            let error = (!down.is_empty()).then(|| anyhow::anyhow!("not available: {}", down.join(", ")));
            print(checked, *json)?;
            error.map_or(Ok(()), Err)
        }
    }
}

fn only(response: RemotesResponse, name: Option<&String>) -> RemotesResponse {
    let remotes = response.remotes.into_iter().filter(|remote| name.is_none_or(|name| remote.name == *name));
    RemotesResponse { remotes: remotes.collect() }
}

fn print(response: RemotesResponse, json: bool) -> anyhow::Result<()> {
    if json {
        return output::json(&response);
    }
    output::print(&table(&response))?;
    for line in response.remotes.iter().filter_map(hidden) {
        output::note(&line);
    }
    Ok(())
}

fn table(response: &RemotesResponse) -> String {
    if response.remotes.is_empty() {
        return "no remotes; `cairn remote add NAME URL` adds one\n".to_owned();
    }
    let mut rows = vec![row(["NAME", "URL", "KIND", "STATE", "MODELS"])];
    rows.extend(response.remotes.iter().map(|remote| {
        let state = match (remote.state, &remote.error) {
            (RemoteState::Up, _) => remote.latency_ms.map_or_else(|| "up".to_owned(), |ms| format!("up ({ms} ms)")),
            (RemoteState::Unknown, _) => "not checked yet".to_owned(),
            (state, error) => {
                let state = if state == RemoteState::Paused { "paused after failures" } else { "down" };
                let reason = error.as_ref().map_or("no reason was given", |error| error.error.as_str());
                format!("{state}: {}", output::escape_controls(reason))
            }
        };
        row([&remote.name, &remote.url, &remote.kind, &state, &output::escape_controls(&shortened(&remote.models))])
    }));
    render(&rows)
}

/// The first names, and the number of the others.
fn shortened(models: &[String]) -> String {
    let listed = models.iter().take(LISTED_MODELS).cloned().collect::<Vec<_>>().join(", ");
    match models.len().saturating_sub(LISTED_MODELS) {
        0 if models.is_empty() => "-".to_owned(),
        0 => listed,
        more => format!("{listed} and {more} more"),
    }
}

/// Notes models that requests do not reach, because a local one has the same name.
fn hidden(remote: &Row) -> Option<String> {
    let names = output::escape_controls(&shortened(&remote.hidden_models)).into_owned();
    let line = format!("Local models have precedence over those of {} with the same name: {names}.", remote.name);
    (!remote.hidden_models.is_empty()).then_some(line)
}

#[cfg(test)]
mod tests {
    use cairn_wire::ErrorBody;

    use super::*;

    fn remote(state: RemoteState, models: &[&str]) -> Row {
        Row {
            name: "gpu".to_owned(),
            url: "http://gpu:8000".to_owned(),
            kind: "openai".to_owned(),
            has_key: true,
            state,
            error: (state != RemoteState::Up).then(|| ErrorBody::text("cannot connect to the server")),
            latency_ms: (state == RemoteState::Up).then_some(12),
            models: models.iter().map(|name| (*name).to_owned()).collect(),
            hidden_models: Vec::new(),
            outstanding: 0,
            requests: 0,
            failures: 0,
            prompt_tokens: 0,
            cached_tokens: 0,
            answer_tokens: 0,
        }
    }

    #[test]
    fn table_shows_state_and_models() {
        let states = [RemoteState::Down, RemoteState::Paused].map(|state| remote(state, &[]));
        let remotes = [vec![remote(RemoteState::Up, &["a", "b", "c", "d", "e"])], states.to_vec()].concat();
        let text = table(&RemotesResponse { remotes });
        assert!(text.contains("paused after failures: cannot connect to the server"), "{text}");
        assert!(text.contains("up (12 ms) ") && text.contains("a, b, c and 2 more"), "{text}");
        assert!(text.contains("down: cannot connect to the server") && text.contains(" - "), "{text}");
        assert!(table(&RemotesResponse { remotes: Vec::new() }).starts_with("no remotes"));
    }

    #[test]
    fn hidden_models_are_noted() {
        assert_eq!(hidden(&remote(RemoteState::Up, &["a"])), None);
        let some = Row { hidden_models: vec!["a".to_owned()], ..remote(RemoteState::Up, &["a"]) };
        let line = hidden(&some).expect("a note");
        assert!(line.contains("precedence") && line.contains("gpu") && line.ends_with("a."), "{line}");
    }
}
