//! `cairn key`: API keys of other programs.

use std::time::SystemTime;

use cairn_wire::app::{CreateKeyRequest, CreateKeyResponse, KeyScope, KeysResponse, RevokeKeyRequest};

use crate::args::Json;
use crate::args::key::{Key, KeyVerb, ScopeArg};
use crate::table::{render, row};
use crate::{CliContext, daemon, human, output};

pub(crate) async fn key(cli: &CliContext, args: &Key) -> anyhow::Result<()> {
    let client = daemon::connect_or_start(cli).await?;
    client.require_own_daemon("an API key")?;
    match &args.verb {
        KeyVerb::Create { name, scope, json } => {
            let request = CreateKeyRequest { name: name.clone(), scope: scope_of(*scope) };
            let created: CreateKeyResponse = client.post("/app/keys", &request).await?;
            match json {
                true => output::json(&created),
                // The key alone is on standard output, so that a script can store it.
                false => {
                    output::note("Store this key now: it is not shown again.");
                    output::print(&format!("{}\n", created.key))
                }
            }
        }
        KeyVerb::List(Json { json }) => {
            let listed: KeysResponse = client.get("/app/keys").await?;
            if *json { output::json(&listed) } else { output::print(&table(&listed, cli.clock.now())) }
        }
        KeyVerb::Revoke { name } => {
            let _: KeysResponse = client.post("/app/keys/revoke", &RevokeKeyRequest { name: name.clone() }).await?;
            output::print("revoked the key\n")
        }
    }
}

fn scope_of(scope: ScopeArg) -> KeyScope {
    match scope {
        ScopeArg::Metrics => KeyScope::Metrics,
    }
}

fn table(listed: &KeysResponse, now: SystemTime) -> String {
    if listed.keys.is_empty() {
        return "no API keys; `cairn key create NAME --scope metrics` creates one\n".to_owned();
    }
    let mut rows = vec![row(["NAME", "SCOPE", "CREATED"])];
    rows.extend(listed.keys.iter().map(|key| {
        let scope = match key.scope {
            KeyScope::Metrics => "metrics",
        };
        row([&key.name, scope, &human::relative(key.created_at, now)])
    }));
    render(&rows)
}
