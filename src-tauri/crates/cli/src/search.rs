//! `cairn search`: finds models to pull.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use cairn_wire::app::{
    DiscoverResponse, DiscoveredFrom, DiscoveredModel, DiscoveredVariant, HardwareMemory, HardwareResponse,
};

use crate::table::{render, row};
use crate::{CliContext, args, daemon, human, output};

/// Delay before the note that a search is running.
const NOTE_DELAY: Duration = Duration::from_secs(1);
/// Most other weight types that a row lists.
const SHOWN_TYPES: usize = 6;

pub(crate) async fn search(cli: &CliContext, args: &args::Search) -> anyhow::Result<()> {
    let client = daemon::connect_or_start(cli).await?;
    client.require_own_daemon("searching for models")?;
    let mut query = vec![("q", args.query.join(" "))];
    query.extend(args.limit.map(|limit| ("limit", limit.to_string())));
    let found = note_when_slow(client.get_with::<DiscoverResponse>("/app/discover", &query)).await?;
    if args.json {
        return output::json(&found);
    }
    if let Some(problem) = &found.problem {
        output::note(&format!("Note: {problem}"));
    }
    match found.models.is_empty() {
        true => output::print(&format!("no models found for: {}\n{ADVICE}\n", args.query.join(" "))),
        false => {
            let hardware: HardwareResponse = client.get("/app/hardware").await?;
            output::print(&table(&found, &hardware.memory))
        }
    }
}

/// Advice after a search without results.
const ADVICE: &str = "Try fewer or other words (`cairn search coder`). `cairn pull NAME` also pulls models that the \
                      search does not list: any of Ollama's library, `hf.co/user/repository:Q4_K_M`, or \
                      `host:port/library/model`.";

/// Waits for a response. Shows a note at a terminal if the response takes more than [`NOTE_DELAY`].
async fn note_when_slow<T>(answer: impl Future<Output = T>) -> T {
    let mut answer = std::pin::pin!(answer);
    tokio::select! {
        answered = &mut answer => return answered,
        () = tokio::time::sleep(NOTE_DELAY) => {}
    }
    let is_terminal = io::stderr().is_terminal();
    if is_terminal {
        // A failure is ignored, because it cannot be reported.
        let _ = write!(io::stderr(), "searching...");
    }
    let answered = answer.await;
    if is_terminal {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
    answered
}

/// Formats the results. Variants in the catalogue are models of different sizes, so each has a row. Variants of a
/// repository are types of the same weights, so each repository has one row.
fn table(found: &DiscoverResponse, memory: &HardwareMemory) -> String {
    let mut rows = vec![row(["NAME", "SIZE", "MEMORY", "WHAT", "FROM"])];
    for model in &found.models {
        match model.from {
            DiscoveredFrom::Library => {
                rows.extend(model.variants.iter().map(|variant| of_library(model, variant, memory)));
            }
            DiscoveredFrom::HuggingFace => rows.push(of_hub(model, memory)),
        }
    }
    render(&rows) + "`cairn pull NAME` pulls a model; `cairn run NAME` starts a chat with it\n"
}

fn of_library(model: &DiscoveredModel, variant: &DiscoveredVariant, memory: &HardwareMemory) -> Vec<String> {
    let parts = [&variant.parameters, &variant.quantization].into_iter().flatten().cloned();
    let what: Vec<String> = parts.chain((!model.tasks.is_empty()).then(|| model.tasks.join(" "))).collect();
    let fit = fit_and_speed(variant, memory);
    vec![variant.name.clone(), size(variant), fit, what.join(", "), from("Ollama's library", variant.here)]
}

fn of_hub(model: &DiscoveredModel, memory: &HardwareMemory) -> Vec<String> {
    let chosen = model.variants.iter().find(|variant| variant.name == model.name);
    let types = model.variants.iter().filter_map(|variant| variant.quantization.as_deref());
    let own = chosen.and_then(|variant| variant.quantization.as_deref());
    let others: Vec<&str> = types.filter(|other| Some(*other) != own).collect();
    let parameters = chosen.and_then(|variant| variant.parameters.as_deref());
    let mut what = parameters.map_or_else(String::new, |parameters| format!("{parameters}, "));
    what += own.unwrap_or("unknown type");
    if !others.is_empty() {
        let more = others.len().saturating_sub(SHOWN_TYPES);
        what += &format!(", also {}", others[..others.len() - more].join(" "));
        if more > 0 {
            what += &format!(" and {more} more");
        }
    }
    let fit = chosen.map_or_else(|| "-".to_owned(), |variant| fit_and_speed(variant, memory));
    let size = chosen.map_or_else(|| "-".to_owned(), size);
    vec![model.name.clone(), size, fit, what, from("Hugging Face", model.here)]
}

/// Whether the weights fit, and the estimated speed of answers if they do.
fn fit_and_speed(variant: &DiscoveredVariant, memory: &HardwareMemory) -> String {
    match (fit(variant.size, memory), variant.speed) {
        ("fits", Some(speed)) => format!("fits, ≈ {:.0} tok/s", speed.answer.tokens_per_second),
        (fit, _) => fit.to_owned(),
    }
}

/// Whether the weights fit into the memory of this machine; the context needs more.
fn fit(size_bytes: u64, memory: &HardwareMemory) -> &'static str {
    match size_bytes {
        size if size > memory.limit_bytes.unwrap_or(memory.total_bytes) => "too big",
        size if size > memory.available_bytes => "slow",
        _ => "fits",
    }
}

fn size(variant: &DiscoveredVariant) -> String {
    format!("{}{}", if variant.estimated { "≈" } else { "" }, human::bytes(variant.size))
}

fn from(origin: &str, here: bool) -> String {
    if here { format!("{origin}, here") } else { origin.to_owned() }
}

#[cfg(test)]
mod tests {
    use cairn_wire::app::{Speed, SpeedFigure};

    use super::*;

    fn variant(name: &str, quantization: &str, size: u64) -> DiscoveredVariant {
        DiscoveredVariant {
            name: name.to_owned(),
            parameters: None,
            quantization: Some(quantization.to_owned()),
            size,
            estimated: false,
            here: false,
            speed: None,
        }
    }

    fn model(name: &str, from: DiscoveredFrom, variants: Vec<DiscoveredVariant>) -> DiscoveredModel {
        DiscoveredModel {
            name: name.to_owned(),
            title: name.to_owned(),
            from,
            about: String::new(),
            tasks: Vec::new(),
            licence: None,
            downloads: None,
            here: variants.iter().any(|variant| variant.here),
            variants,
        }
    }

    #[test]
    fn search_table_has_one_row_per_pullable_model() {
        let parameters = Some("8.2B".to_owned());
        let small =
            DiscoveredVariant { parameters, estimated: true, here: true, ..variant("q:8b", "Q4_K_M", 5_200_000_000) };
        let library = model("q", DiscoveredFrom::Library, vec![small, variant("q:32b", "Q4_K_M", 20_000_000_000)]);
        let types = ["IQ1_S", "IQ2_M", "Q2_K", "Q3_K_M", "Q4_0", "Q5_0", "Q6_K", "Q8_0"];
        let mut variants: Vec<_> = types.map(|kind| variant(&format!("hf.co/m/M:{kind}"), kind, 7)).into();
        variants.push(variant("hf.co/m/M:Q4_K_M", "Q4_K_M", 4_000_000_000));
        variants.iter_mut().for_each(|variant| variant.parameters = Some("7B".to_owned()));
        let hub = model("hf.co/m/M:Q4_K_M", DiscoveredFrom::HuggingFace, variants);
        let bare = model("hf.co/m/bare", DiscoveredFrom::HuggingFace, Vec::new());
        let memory = HardwareMemory {
            total_bytes: 16_000_000_000,
            limit_bytes: None,
            available_bytes: 5_000_000_000,
            ours_bytes: None,
            ours_mapped_bytes: None,
            kept_bytes: 0,
        };
        let text =
            table(&DiscoverResponse { models: vec![library, hub, bare], ..DiscoverResponse::default() }, &memory);
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split("  ").map(str::trim).filter(|c| !c.is_empty()).collect()).collect();
        let expected: [&[&str]; 5] = [
            &["NAME", "SIZE", "MEMORY", "WHAT", "FROM"],
            &["q:8b", "≈5.2 GB", "slow", "8.2B, Q4_K_M", "Ollama's library, here"],
            &["q:32b", "20 GB", "too big", "Q4_K_M", "Ollama's library"],
            &[
                "hf.co/m/M:Q4_K_M",
                "4 GB",
                "fits",
                "7B, Q4_K_M, also IQ1_S IQ2_M Q2_K Q3_K_M Q4_0 Q5_0 and 2 more",
                "Hugging Face",
            ],
            &["hf.co/m/bare", "-", "-", "unknown type", "Hugging Face"],
        ];
        assert_eq!(lines[..5], expected, "{text}");
        assert!(lines[5].concat().contains("cairn pull NAME"), "the last line shows the next command: {text}");
    }

    #[test]
    fn row_has_the_estimated_speed_of_a_variant_that_fits() {
        let memory = HardwareMemory {
            total_bytes: 8 << 30,
            limit_bytes: None,
            available_bytes: 4 << 30,
            ours_bytes: None,
            ours_mapped_bytes: None,
            kept_bytes: 0,
        };
        let figure = SpeedFigure { tokens_per_second: 12.4, measured: false };
        let fast = |size| DiscoveredVariant {
            speed: Some(Speed { answer: figure, prompt: figure }),
            ..variant("m", "Q4_0", size)
        };
        assert_eq!(fit_and_speed(&fast(1 << 30), &memory), "fits, ≈ 12 tok/s");
        assert_eq!(fit_and_speed(&fast(6 << 30), &memory), "slow", "parts are read from the disk");
        assert_eq!(fit_and_speed(&variant("m", "Q4_0", 1 << 30), &memory), "fits", "nothing is measured yet");
    }
}
