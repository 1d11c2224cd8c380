//! `cairn login` and `cairn logout`: user names and passwords for registries.
//!
//! A password is typed at a terminal without echo, or read from a pipe. It is never an argument, because every program
//! of the machine can read command lines. The daemon checks the login with the registry and stores it.

mod quiet;

use std::io::{self, BufRead, Read, Write};

use anyhow::{Context, anyhow, bail};
use cairn_wire::app::{KnownLogin, LoginRequest, LoginsResponse, LogoutRequest};
use tokio::task::spawn_blocking;

use crate::table::{render, row};
use crate::{CliContext, args, daemon, output, terminal};
use quiet::HiddenInput;

/// Upper limit for a password or token.
const MAX_PASSWORD_BYTES: u64 = 64 << 10;

pub(crate) async fn login(cli: &CliContext, args: &args::Login) -> anyhow::Result<()> {
    let client = daemon::connect_or_start(cli).await?;
    client.require_own_daemon("a login for a registry")?;
    let Some(registry) = &args.registry else {
        let logins: LoginsResponse = client.get("/app/logins").await?;
        return if args.json { output::json(&logins) } else { output::print(&table(&logins)) };
    };
    let is_interactive = terminal::is_stdin_terminal() && !args.password_stdin;
    let user = match &args.username {
        Some(user) => user.clone(),
        None if is_interactive => ask("Username: ", false).await?,
        None => bail!("the user name for {registry} is missing; use `cairn login {registry} --username NAME`"),
    };
    let password = if is_interactive { ask("Password: ", true).await? } else { read_piped_password()? };
    if password.is_empty() {
        bail!("the password is empty; nothing was stored");
    }
    let request = LoginRequest {
        registry: registry.clone(),
        user,
        password,
        token_servers: args.token_server.clone(),
        insecure: args.insecure,
    };
    let login: KnownLogin = client.post("/app/logins", &request).await?;
    if args.json {
        return output::json(&login);
    }
    output::print(&format!("logged in to {} as {}\n", login.registry, login.user))
}

pub(crate) async fn logout(cli: &CliContext, args: &args::Logout) -> anyhow::Result<()> {
    let client = daemon::connect_or_start(cli).await?;
    client.require_own_daemon("a login for a registry")?;
    let request = LogoutRequest { registry: args.registry.clone() };
    let _: LoginsResponse = client.post("/app/logins/forget", &request).await?;
    output::print(&format!("logged out of {}\n", args.registry))
}

fn table(response: &LoginsResponse) -> String {
    if response.logins.is_empty() {
        return "no logins; `cairn login HOST` stores one\n".to_owned();
    }
    let mut rows = vec![row(["REGISTRY", "USER"])];
    rows.extend(response.logins.iter().map(|login| row([&login.registry, &output::escape_controls(&login.user)])));
    render(&rows)
}

/// Reads a secret: from the terminal without echo, or from a pipe.
pub(crate) async fn read_secret(prompt: &'static str) -> anyhow::Result<String> {
    if terminal::is_stdin_terminal() { ask(prompt, true).await } else { read_piped_password() }
}

/// Reads a line from the terminal, without echo if it is secret.
async fn ask(prompt: &'static str, secret: bool) -> anyhow::Result<String> {
    let hidden = if secret { Some(HiddenInput::begin()?) } else { None };
    let read = spawn_blocking(move || {
        let mut line = String::new();
        io::stderr().write_all(prompt.as_bytes())?;
        io::stdin().lock().read_line(&mut line)?;
        Ok::<_, io::Error>(line)
    });
    let line = tokio::select! {
        line = read => line.expect("reading a line does not panic").context("cannot read from the terminal"),
        // An error, not an exit, so that dropping `hidden` turns the echo on again.
        _ = tokio::signal::ctrl_c() => Err(anyhow!("interrupted; nothing was stored")),
    };
    drop(hidden);
    Ok(line?.trim_end_matches(['\r', '\n']).to_owned())
}

/// Reads a password from standard input, without its line ending.
fn read_piped_password() -> anyhow::Result<String> {
    let mut text = String::new();
    io::stdin()
        .take(MAX_PASSWORD_BYTES)
        .read_to_string(&mut text)
        .context("cannot read the password from standard input")?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}
