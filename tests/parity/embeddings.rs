//! Compares the vectors of a daemon's `/api/embed` with llama.cpp's.

use std::path::Path;

use anyhow::{Context, ensure};
use it::daemon::Daemon;
use it::embeddings::{self, CONTEXT_TOKENS, Case, Vectors};
use it::peer::Peer;
use serde_json::json;

/// Compares all cases with names that begin with `only`, and prints a table. Returns the number of failed cases.
pub(crate) fn compare_all(
    cairn: &Path,
    folder: &Path,
    peer: &mut Peer,
    only: &str,
    record: Option<&Path>,
) -> anyhow::Result<usize> {
    let cases: Vec<Case> = embeddings::all().into_iter().filter(|case| case.name.starts_with(only)).collect();
    if cases.is_empty() {
        return Ok(0);
    }
    let daemon = Daemon::start(cairn, &folder.join("home"))?;
    let texts = embeddings::texts();
    println!("\n| vectors | texts | tokens | smallest cosine |\n|---|---|---|---|");
    let mut failed = 0;
    for case in &cases {
        let (ours, theirs) =
            both(case, folder, &daemon, peer, &texts).with_context(|| format!("the case {}", case.name))?;
        if let Some(folder) = record {
            theirs.write(folder, case)?;
        }
        let (cosine, at) = ours.smallest_cosine(&theirs).with_context(|| format!("the case {}", case.name))?;
        let passes = cosine >= case.min_cosine();
        let fails = if passes { String::new() } else { format!(" FAILS at {:?}", texts[at]) };
        let tokens: u64 = ours.tokens.iter().sum();
        println!("| {} | {} | {tokens} | {cosine:.9} |{fails}", case.name, texts.len());
        failed += usize::from(!passes);
    }
    Ok(failed)
}

/// Returns our vectors and llama.cpp's.
fn both(
    case: &Case,
    folder: &Path,
    daemon: &Daemon,
    peer: &mut Peer,
    texts: &[String],
) -> anyhow::Result<(Vectors, Vectors)> {
    let model = case.file_stem();
    let path = folder.join(format!("{model}.gguf"));
    cairn_testkit::write_file(&case.spec, &path)?;
    daemon.run(&["import", &path.to_string_lossy(), &model])?;
    let ours = Vectors::of_daemon(&model, texts, |request| daemon.post("/api/embed", request))?;
    let job = json!({ "model": path, "texts": texts, "context": CONTEXT_TOKENS });
    let (answer, bytes) = peer.ask_for_file(job, &path.with_extension("vectors"))?;
    let tokens = embeddings::numbers(&answer["tokens"]).context("llama.cpp counts tokens")?;
    ensure!(tokens.len() == texts.len(), "llama.cpp counted the tokens of {} texts", tokens.len());
    Ok((ours, Vectors::new(tokens, &bytes)?))
}
