//! The checks that need a running daemon: its version, port, hardware, libraries and cache.

use std::net::TcpListener;

use cairn_app::VERSION;
use cairn_wire::app::{CacheResponse, HardwareResponse, LibraryState, SettingsResponse, StatusResponse, UsageResponse};
use cairn_wire::ollama::VersionResponse;

use super::Check;
use crate::client::Client;
use crate::{CliContext, daemon, human, one_line};

/// Memory below which only small models run.
const LOW_MEMORY_BYTES: u64 = 4_000_000_000;

pub(super) async fn all(cli: &CliContext) -> Vec<Check> {
    let client = match daemon::connect(cli).await {
        Ok(Some(client)) => client,
        Ok(None) => return vec![not_running(cli)],
        Err(error) => {
            let advice = match daemon::configured_address(cli) {
                Some(_) => "start the server, or change OLLAMA_HOST",
                None => "`cairn logs` shows the cause; end the process and start it again",
            };
            return vec![Check::fault("daemon", one_line(&error), advice)];
        }
    };
    if !client.is_own_daemon() {
        return vec![other_server(&client).await];
    }
    let mut checks = Vec::new();
    checks.push(checked("daemon", client.get("/app/status").await, |status| vec![running(&status)]));
    checks.push(checked("settings", client.get("/app/settings").await, |settings| config_file(&settings)));
    checks.push(checked("processor", client.get("/app/hardware").await, |hardware| machine(&hardware)));
    checks.push(checked("models", client.get("/app/usage").await, |usage| libraries(&usage)));
    checks.push(checked("cache", client.get("/app/cache").await, |cache| tiers(&cache)));
    checks.into_iter().flatten().collect()
}

/// The checks of a response, or a fault if there is none.
fn checked<T>(name: &'static str, response: anyhow::Result<T>, checks: impl FnOnce(T) -> Vec<Check>) -> Vec<Check> {
    match response {
        Ok(response) => checks(response),
        Err(error) => vec![Check::fault(name, one_line(&error), "`cairn logs` shows the cause")],
    }
}

fn not_running(cli: &CliContext) -> Check {
    let address = cli.settings.server.address.for_client();
    match TcpListener::bind((address.host.as_str(), address.port)) {
        Ok(_) => Check::ok("daemon", format!("not running; port {} is free for it", address.port)),
        Err(error) => Check::warning(
            "daemon",
            format!("not running; port {} cannot be used: {error}", address.port),
            "end the program that uses the port, or set OLLAMA_HOST to another port",
        ),
    }
}

async fn other_server(client: &Client) -> Check {
    let (address, _) = client.credentials();
    match client.get::<VersionResponse>("/api/version").await {
        Ok(version) => Check::warning(
            "daemon",
            format!("OLLAMA_HOST names {address}, which is not this user's daemon; its version is {}", version.version),
            "unset OLLAMA_HOST to check Cairn's own daemon",
        ),
        Err(error) => Check::fault("daemon", one_line(&error), "start the server, or change OLLAMA_HOST"),
    }
}

fn running(status: &StatusResponse) -> Check {
    let text = format!("version {} at {}, process {}", status.version, status.addresses.join(", "), status.pid);
    match status.version == VERSION {
        true => Check::ok("daemon", text),
        false => Check::warning("daemon", text, format!("`cairn stop --daemon` lets version {VERSION} start")),
    }
}

fn config_file(settings: &SettingsResponse) -> Vec<Check> {
    let problem = settings.problem.as_ref().map(|problem| {
        let advice = format!("correct {} or delete it", settings.path);
        Check::fault("settings", problem, advice)
    });
    let restart = settings.restart.then(|| {
        Check::warning(
            "settings",
            "a changed setting is not in effect yet",
            "`cairn stop --daemon` restarts the daemon",
        )
    });
    problem.into_iter().chain(restart).collect()
}

fn machine(hardware: &HardwareResponse) -> Vec<Check> {
    let HardwareResponse { cpu, memory, kernels, gpus, .. } = hardware;
    let text = format!("{}, {} cores used, kernels {}", cpu.brand, cpu.used_cores, kernels.in_use);
    let best = kernels.variants.iter().find(|variant| variant.usable);
    let processor = match best.filter(|best| !best.in_use) {
        Some(best) => {
            let advice = format!("unset engine.kernel and CAIRN_KERNEL: {} is faster here", best.name);
            Check::warning("processor", text, advice)
        }
        None if kernels.in_use == "scalar" => {
            let advice = "the processor lacks the instructions of every fast variant; use small models";
            Check::warning("processor", text, advice)
        }
        None => Check::ok("processor", text),
    };
    let total = memory.limit_bytes.unwrap_or(memory.total_bytes);
    let text = format!("{} of {} available", human::bytes(memory.available_bytes), human::bytes(total));
    let memory = match memory.available_bytes {
        ..LOW_MEMORY_BYTES => {
            Check::warning("memory", text, "use models of at most 3B parameters, or close other programs")
        }
        _ => Check::ok("memory", text),
    };
    let names: Vec<&str> = gpus.iter().filter(|gpu| !gpu.used).map(|gpu| gpu.name.as_str()).collect();
    let gpu = match names.is_empty() {
        true => Check::ok("gpu", "none is needed: models run on the processor"),
        false => Check::ok("gpu", format!("{} is not used: models run on the processor", names.join(", "))),
    };
    vec![processor, memory, gpu]
}

fn libraries(usage: &UsageResponse) -> Vec<Check> {
    let mut checks = Vec::new();
    for usage in &usage.libraries {
        let library = &usage.library;
        let reason = library.reason.as_deref().unwrap_or("unknown reason");
        match library.state {
            LibraryState::Unreadable => checks.push(Check::fault(
                "models",
                format!("the library {} cannot be read: {reason}", library.path),
                "change its permissions, or set OLLAMA_MODELS to another folder",
            )),
            LibraryState::Absent if library.missed => checks.push(Check::warning(
                "models",
                format!("the library {} is absent: {reason}", library.path),
                "mount its disk, or remove it from the settings",
            )),
            LibraryState::Absent => {}
            LibraryState::Present => {
                let text =
                    format!("{} models, {} in {}", library.models, human::bytes(usage.model_bytes), library.path);
                checks.push(Check::ok("models", text));
            }
        }
        for skipped in &library.skipped {
            let text = format!("the manifest {} cannot be read: {}", skipped.path, skipped.reason);
            checks.push(Check::fault("models", text, "pull the model again"));
        }
        for model in usage.models.iter().filter(|model| model.missing > 0) {
            let text = format!("{} lacks {}", model.model, human::files(model.missing));
            checks.push(Check::fault("models", text, format!("`cairn pull {}`", model.model)));
        }
    }
    if checks.is_empty() {
        checks.push(Check::ok("models", "no model is stored yet"));
    }
    checks
}

fn tiers(cache: &CacheResponse) -> Vec<Check> {
    if cache.tiers.is_empty() {
        return vec![Check::ok("cache", "off")];
    }
    let tier = |tier: &cairn_wire::app::CacheTier| {
        let name = format!("{:?}", tier.tier).to_lowercase();
        let text = format!("{name}: {} of {}", human::bytes(tier.used_bytes), human::bytes(tier.budget_bytes));
        match (&tier.reason, tier.damaged) {
            (Some(reason), _) => {
                let text = format!("{name} is {}: {reason}", tier.health);
                Check::warning("cache", text, "`cairn cache status` shows the tiers")
            }
            (None, damaged @ 1..) => {
                Check::warning("cache", format!("{text}, {damaged} damaged"), "`cairn cache fsck` lists them")
            }
            (None, 0) => Check::ok("cache", text),
        }
    };
    cache.tiers.iter().map(tier).collect()
}
