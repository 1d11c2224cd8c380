//! `cairn login` and `cairn logout`: names and passwords for registries.
//!
//! A password is typed at a terminal that does not show it, or read from a pipe; it is never a word of the command line,
//! which every program of the machine can read. The daemon tries it at the registry and keeps it.

mod quiet;

use std::io::{self, BufRead, Read, Write};

use anyhow::{Context, anyhow, bail};
use cairn_wire::app::{KnownLogin, LoginRequest, LoginsResponse, LogoutRequest};
use tokio::task::spawn_blocking;

use crate::table::{render, row};
use crate::{Setting, args, daemon, output, terminal};
use quiet::Quiet;

/// Longer than any password or token.
const MAX_PASSWORD_BYTES: u64 = 64 << 10;

pub(crate) async fn login(setting: &Setting, args: &args::Login) -> anyhow::Result<()> {
    let client = daemon::reach(setting).await?;
    client.must_be_ours("a login for a registry")?;
    let Some(registry) = &args.registry else {
        let known: LoginsResponse = client.get("/app/logins").await?;
        return if args.json { output::json(&known) } else { output::print(&listed(&known)) };
    };
    let typed = terminal::is_typed() && !args.password_stdin;
    let user = match &args.username {
        Some(user) => user.clone(),
        None if typed => ask("Username: ", false).await?,
        None => bail!("who are you to {registry}? `cairn login {registry} --username NAME`"),
    };
    let password = if typed { ask("Password: ", true).await? } else { piped()? };
    if password.is_empty() {
        bail!("the password is empty; nothing was kept");
    }
    let request = LoginRequest {
        registry: registry.clone(),
        user,
        password,
        token_servers: args.token_server.clone(),
        insecure: args.insecure,
    };
    let known: KnownLogin = client.post("/app/logins", &request).await?;
    if args.json {
        return output::json(&known);
    }
    output::print(&format!("logged in to {} as {}\n", known.registry, known.user))
}

pub(crate) async fn logout(setting: &Setting, args: &args::Logout) -> anyhow::Result<()> {
    let client = daemon::reach(setting).await?;
    client.must_be_ours("a login for a registry")?;
    let request = LogoutRequest { registry: args.registry.clone() };
    let _: LoginsResponse = client.post("/app/logins/forget", &request).await?;
    output::print(&format!("logged out of {}\n", args.registry))
}

fn listed(known: &LoginsResponse) -> String {
    if known.logins.is_empty() {
        return "no registry; `cairn login HOST` keeps a name and a password for one\n".to_owned();
    }
    let mut rows = vec![row(["REGISTRY", "USER"])];
    rows.extend(known.logins.iter().map(|login| row([&login.registry, &output::shown(&login.user)])));
    render(&rows)
}

/// A line that is typed at the terminal, unseen if it is secret.
async fn ask(prompt: &'static str, secret: bool) -> anyhow::Result<String> {
    let quiet = if secret { Some(Quiet::begin()?) } else { None };
    let read = spawn_blocking(move || {
        let mut line = String::new();
        io::stderr().write_all(prompt.as_bytes())?;
        io::stdin().lock().read_line(&mut line)?;
        Ok::<_, io::Error>(line)
    });
    let line = tokio::select! {
        line = read => line.expect("reading a line does not panic").context("the terminal cannot be read"),
        // The terminal shows what is typed again before this program ends.
        _ = tokio::signal::ctrl_c() => Err(anyhow!("interrupted; nothing was kept")),
    };
    drop(quiet);
    Ok(line?.trim_end_matches(['\r', '\n']).to_owned())
}

/// What a pipe or a file gives, without the end of its line.
fn piped() -> anyhow::Result<String> {
    let mut text = String::new();
    io::stdin().take(MAX_PASSWORD_BYTES).read_to_string(&mut text).context("no password could be read")?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}
