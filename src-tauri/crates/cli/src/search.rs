//! `cairn search`: models to pull, by words.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use cairn_wire::app::{DiscoverResponse, DiscoveredFrom, DiscoveredModel, DiscoveredVariant};

use crate::table::{render, row};
use crate::{Setting, args, daemon, human, output};

/// Before it, nobody has begun to wonder.
const SILENT: Duration = Duration::from_secs(1);
/// Types of weights that a row names beside the one that it is about.
const SHOWN_TYPES: usize = 6;

pub(crate) async fn search(setting: &Setting, args: &args::Search) -> anyhow::Result<()> {
    let client = daemon::reach(setting).await?;
    client.must_be_ours("searching for models")?;
    let mut asked = vec![("q", args.query.join(" "))];
    asked.extend(args.limit.map(|limit| ("limit", limit.to_string())));
    let found = said_when_slow(client.get_with::<DiscoverResponse>("/app/discover", &asked)).await?;
    if args.json {
        return output::json(&found);
    }
    if let Some(trouble) = &found.trouble {
        output::note(&format!("Note: {trouble}"));
    }
    match found.models.is_empty() {
        true => output::print(&format!("nothing is called so: {}\n{ADVICE}\n", args.query.join(" "))),
        false => output::print(&table(&found)),
    }
}

/// What to do when nothing was found.
const ADVICE: &str = "Try fewer or other words (`cairn search coder`). A model whose name you know need not be found \
                      here: `cairn pull NAME` takes any of Ollama's library, `hf.co/user/repository:Q4_K_M`, or \
                      `host:port/library/model`.";

/// Waits for an answer, and says so at a terminal when it takes its time.
async fn said_when_slow<T>(answer: impl Future<Output = T>) -> T {
    let mut answer = std::pin::pin!(answer);
    tokio::select! {
        answered = &mut answer => return answered,
        () = tokio::time::sleep(SILENT) => {}
    }
    let watched = io::stderr().is_terminal();
    if watched {
        // Nobody can be told when this fails.
        let _ = write!(io::stderr(), "searching...");
    }
    let answered = answer.await;
    if watched {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
    answered
}

/// A row for each variant of the catalogue, whose variants are models of different sizes; one for each repository, whose
/// variants are types of the same weights.
fn table(found: &DiscoverResponse) -> String {
    let mut rows = vec![row(["NAME", "SIZE", "WHAT", "FROM"])];
    for model in &found.models {
        match model.from {
            DiscoveredFrom::Library => rows.extend(model.variants.iter().map(|variant| of_library(model, variant))),
            DiscoveredFrom::HuggingFace => rows.push(of_hub(model)),
        }
    }
    render(&rows) + "`cairn pull NAME` brings one here; `cairn run NAME` chats with it\n"
}

fn of_library(model: &DiscoveredModel, variant: &DiscoveredVariant) -> Vec<String> {
    let parts = [&variant.parameters, &variant.quantization].into_iter().flatten().cloned();
    let what: Vec<String> = parts.chain((!model.tasks.is_empty()).then(|| model.tasks.join(" "))).collect();
    vec![variant.name.clone(), size(variant), what.join(", "), from("Ollama's library", variant.here)]
}

fn of_hub(model: &DiscoveredModel) -> Vec<String> {
    let chosen = model.variants.iter().find(|variant| variant.name == model.name);
    let types = model.variants.iter().filter_map(|variant| variant.quantization.as_deref());
    let own = chosen.and_then(|variant| variant.quantization.as_deref());
    let others: Vec<&str> = types.filter(|other| Some(*other) != own).collect();
    let parameters = chosen.and_then(|variant| variant.parameters.as_deref());
    let mut what = parameters.map_or_else(String::new, |parameters| format!("{parameters}, "));
    what += own.unwrap_or("types unknown");
    if !others.is_empty() {
        let more = others.len().saturating_sub(SHOWN_TYPES);
        what += &format!(", also {}", others[..others.len() - more].join(" "));
        if more > 0 {
            what += &format!(" and {more} more");
        }
    }
    let size = chosen.map_or_else(|| "-".to_owned(), size);
    vec![model.name.clone(), size, what, from("Hugging Face", model.here)]
}

fn size(variant: &DiscoveredVariant) -> String {
    format!("{}{}", if variant.estimated { "≈" } else { "" }, human::bytes(variant.size))
}

fn from(shelf: &str, here: bool) -> String {
    if here { format!("{shelf}, here") } else { shelf.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variant(name: &str, quantization: &str, size: u64) -> DiscoveredVariant {
        DiscoveredVariant {
            name: name.to_owned(),
            parameters: None,
            quantization: Some(quantization.to_owned()),
            size,
            estimated: false,
            here: false,
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
    fn a_row_is_what_one_pulls() {
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
        let text = table(&DiscoverResponse { models: vec![library, hub, bare], trouble: None });
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split("  ").map(str::trim).filter(|c| !c.is_empty()).collect()).collect();
        let expected: [&[&str]; 5] = [
            &["NAME", "SIZE", "WHAT", "FROM"],
            &["q:8b", "≈5.2 GB", "8.2B, Q4_K_M", "Ollama's library, here"],
            &["q:32b", "20 GB", "Q4_K_M", "Ollama's library"],
            &[
                "hf.co/m/M:Q4_K_M",
                "4 GB",
                "7B, Q4_K_M, also IQ1_S IQ2_M Q2_K Q3_K_M Q4_0 Q5_0 and 2 more",
                "Hugging Face",
            ],
            &["hf.co/m/bare", "-", "types unknown", "Hugging Face"],
        ];
        assert_eq!(lines[..5], expected, "{text}");
        assert!(lines[5].concat().contains("cairn pull NAME"), "and what to do with a name: {text}");
    }
}
