//! `cairn mirror`: this machine as a registry for other machines, and the mirrors that it uses.

use std::fmt::Write;
use std::time::SystemTime;

use cairn_wire::app::{
    AllowRequest, ForgetRequest, FoundMachine, InviteResponse, JoinMirrorRequest, KnownKey, MirrorResponse,
};
use serde::Serialize;

use crate::args::{Json, MirrorVerb};
use crate::table::{render, row};
use crate::{CliContext, args, daemon, human, output};

pub(crate) async fn mirror(cli: &CliContext, args: &args::Mirror) -> anyhow::Result<()> {
    let client = daemon::connect_or_start(cli).await?;
    client.require_own_daemon("sharing models")?;
    match &args.verb {
        MirrorVerb::Serve(Json { json }) => {
            let state: MirrorResponse = client.get("/app/mirror").await?;
            let invited: InviteResponse = client.post("/app/mirror/invite", &()).await?;
            if *json {
                return output::json(&Invitation { mirror: &state, invited: &invited });
            }
            let address =
                format!("http://{}:{}", cli.host_name.as_deref().unwrap_or("HOST"), cli.settings.server.address.port());
            let is_remote = !cli.settings.server.address.is_loopback();
            output::print(&invitation_text(&state, &invited, &address, is_remote))
        }
        MirrorVerb::Join { address, code } => {
            let address = if address.contains("://") { address.clone() } else { format!("http://{address}") };
            let request = JoinMirrorRequest { address: address.trim_end_matches('/').to_owned(), code: code.clone() };
            let state: MirrorResponse = client.post("/app/mirror/join", &request).await?;
            let key = state.joined.iter().find(|known| known.label == request.address);
            let fingerprint = key.map_or("", |known| &known.fingerprint);
            output::print(&format!("joined {} ({fingerprint}); pulls now try this mirror first\n", request.address))
        }
        MirrorVerb::Allow { key } => {
            let _: MirrorResponse = client.post("/app/mirror/allow", &AllowRequest { key: key.clone() }).await?;
            output::print("the owner of this key can now have models fetched\n")
        }
        MirrorVerb::Forget { which } => {
            let _: MirrorResponse = client.post("/app/mirror/forget", &ForgetRequest { which: which.clone() }).await?;
            output::print(&format!("forgot {which}\n"))
        }
        MirrorVerb::Peers(Json { json }) => {
            let state: MirrorResponse = client.get("/app/mirror").await?;
            if *json {
                return output::json(&Peers { known: &state.known, joined: &state.joined, nearby: &state.nearby });
            }
            output::print(&peers(&state, cli.clock.now()))
        }
        MirrorVerb::Stats(Json { json }) => {
            let state: MirrorResponse = client.get("/app/mirror").await?;
            if *json { output::json(&state) } else { output::print(&stats(&state)) }
        }
    }
}

#[derive(Serialize)]
struct Invitation<'a> {
    #[serde(flatten)]
    mirror: &'a MirrorResponse,
    #[serde(flatten)]
    invited: &'a InviteResponse,
}

#[derive(Serialize)]
struct Peers<'a> {
    known: &'a [KnownKey],
    joined: &'a [KnownKey],
    nearby: &'a [FoundMachine],
}

fn invitation_text(state: &MirrorResponse, invited: &InviteResponse, address: &str, is_remote: bool) -> String {
    let mut text = match (state.shares, state.fetches) {
        (false, _) => {
            "Only programs on this machine can pull its models. To share them with other machines, start the \
                       daemon with CAIRN_SHARE=1 and OLLAMA_HOST=0.0.0.0.\n"
                .to_owned()
        }
        (true, false) => {
            "Other machines can pull this machine's models. With CAIRN_MIRROR=1 the daemon also fetches missing \
                          models.\n"
                .to_owned()
        }
        (true, true) => {
            format!(
                "Other machines can pull this machine's models. Missing models are fetched from {}.\n",
                state.origins.join(", ")
            )
        }
    };
    if is_remote {
        text += "OLLAMA_HOST also opens /api to other machines, as with Ollama: any client that reaches this machine \
                 can use, pull, create and delete its models. Only /v2 requires keys.\n";
    }
    let code = &invited.code;
    write!(
        text,
        "Key of this machine: {}\nTo join, run this once on another machine within ten minutes:\n\n  \
         cairn mirror join {address} {code}\n",
        state.fingerprint
    )
    .expect("writing into a string does not fail");
    text
}

fn peers(state: &MirrorResponse, now: SystemTime) -> String {
    if state.known.is_empty() && state.joined.is_empty() && state.nearby.is_empty() {
        return "no peers; `cairn mirror serve` shows how another machine joins this one\n".to_owned();
    }
    let mut text = String::new();
    if !(state.known.is_empty() && state.joined.is_empty()) {
        let mut rows = vec![row(["NAME", "KEY", "ROLE"])];
        let lists = [(&state.known, "fetched for"), (&state.joined, "mirror, joined")];
        for (list, role) in lists {
            rows.extend(list.iter().map(|key| row([&output::escape_controls(&key.label), &key.fingerprint, role])));
        }
        text += &render(&rows);
    }
    if !state.nearby.is_empty() {
        let mut rows = vec![row(["FOUND", "ADDRESS", "ROLE", "LAST SEEN", "BYTES GOT"])];
        rows.extend(state.nearby.iter().map(|found| {
            let role = match (found.dropped, found.joined) {
                (true, _) => "dropped: it sent wrong bytes",
                (false, true) => "joined",
                (false, false) => "blobs only",
            };
            let (seen, got) = (human::relative(found.seen_at, now), human::bytes(found.got_bytes));
            row([&output::escape_controls(&found.name), &output::escape_controls(&found.address), role, &seen, &got])
        }));
        text += &render(&rows);
    }
    text
}

fn stats(state: &MirrorResponse) -> String {
    let lookups = state.hits + state.misses;
    let mut text = format!(
        "{} sent, {} fetched from origins; {} of {lookups} lookups were hits\n",
        human::bytes(state.sent_bytes),
        human::bytes(state.fetched_bytes),
        state.hits,
    );
    if state.stale > 0 {
        writeln!(text, "{} lookups used a cached manifest because the origin did not answer", state.stale)
            .expect("writing into a string does not fail");
    }
    if !state.clients.is_empty() {
        let mut rows = vec![row(["CLIENT", "SENT", "ANSWERS", "REFUSED", "OPEN"])];
        rows.extend(state.clients.iter().map(|client| {
            let (sent, answers) = (human::bytes(client.sent_bytes), client.requests.to_string());
            row([&client.address, &sent, &answers, &client.refused.to_string(), &client.open.to_string()])
        }));
        text += &render(&rows);
    }
    text
}

#[cfg(test)]
mod tests {
    use cairn_wire::Timestamp;

    use super::*;

    #[test]
    fn invitation_warns_about_open_api() {
        let invited = InviteResponse { code: "1".to_owned(), until: Timestamp(SystemTime::UNIX_EPOCH) };
        let state = MirrorResponse {
            shares: true,
            fetches: false,
            origins: Vec::new(),
            key: String::new(),
            fingerprint: String::new(),
            hits: 0,
            misses: 0,
            stale: 0,
            fetched_bytes: 0,
            sent_bytes: 0,
            clients: Vec::new(),
            known: Vec::new(),
            joined: Vec::new(),
            nearby: Vec::new(),
        };
        assert!(invitation_text(&state, &invited, "http://nas:1", true).contains("/api"), "with a remote address");
        assert!(!invitation_text(&state, &invited, "http://nas:1", false).contains("/api"), "with a loopback address");
    }
}
