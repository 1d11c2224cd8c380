//! `cairn verify`: verifies the blobs of models, lists the damaged ones and shows how to repair them.

use std::path::Path;

use anyhow::bail;
use cairn_wire::app::{FlawKind, FlawedContents, VerifiedModels, VerifyLine, VerifyRequest};

use crate::progress::Progress;
use crate::{CliContext, args, daemon, human, output, several};

pub(crate) async fn verify(cli: &CliContext, args: &args::Verify) -> anyhow::Result<()> {
    let verified = several::report_failure(args.json, several::only(&args.models), request_verify(cli, args).await)?;
    let verdict = verdict(&verified);
    match (args.json, &verdict) {
        (true, _) => output::json(&verified)?,
        (false, Ok(sound)) => output::print(sound)?,
        (false, Err(_)) => output::print(&lines(&verified))?,
    }
    verdict.map(drop).map_err(|damage| anyhow::anyhow!(damage))
}

/// Requests the verification from the daemon and shows the progress.
async fn request_verify(cli: &CliContext, args: &args::Verify) -> anyhow::Result<VerifiedModels> {
    let client = daemon::connect_or_start(cli).await?;
    client.require_own_daemon("verifying models")?;
    let request = VerifyRequest { models: args.models.clone(), discard: args.discard };
    let mut progress = Progress::new();
    let verified = async {
        let mut lines = client.stream("/app/verify", &request).await?;
        while let Some(line) = lines.next::<VerifyLine>().await? {
            match line {
                VerifyLine::Hashing { completed, total } => progress.show("verifying", completed, total),
                VerifyLine::Done(verified) => return Ok(verified),
            }
        }
        bail!("the daemon ended before the verification was complete");
    };
    let verified = tokio::select! {
        verified = verified => verified,
        // The daemon cancels the verification when the client disconnects.
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
    };
    progress.clear();
    verified
}

/// Returns a line for every damaged or unreadable file.
fn lines(verified: &VerifiedModels) -> String {
    let flawed = verified.flawed.iter().map(|flawed| {
        let of = match flawed.models.is_empty() {
            true => "in no model".to_owned(),
            false => format!("{} of {}", flawed.kind, flawed.models.join(", ")),
        };
        let done = if flawed.discarded { "; it was removed" } else { "" };
        format!("{} ({of}) in {} {}{done}\n", flawed.digest, flawed.library, flawed.reason)
    });
    let skipped = verified.skipped.iter().map(|skipped| format!("{}: {}\n", skipped.path, skipped.reason));
    flawed.chain(skipped).collect()
}

/// Returns the summary: `Ok` if everything is intact, `Err` with the next steps otherwise.
fn verdict(verified: &VerifiedModels) -> Result<String, String> {
    let (contents, size) = (human::files(verified.contents), human::bytes(verified.bytes));
    let models = match verified.models {
        1 => "1 model".to_owned(),
        models => format!("{models} models"),
    };
    if verified.flawed.is_empty() && verified.skipped.is_empty() {
        return Ok(format!("{models}, {contents}, {size}: all match their digests\n"));
    }
    let mut sentences = Vec::new();
    if !verified.flawed.is_empty() {
        sentences.push(format!("{} of {contents} do not match their digests", verified.flawed.len()));
    }
    if !verified.skipped.is_empty() {
        let is_manifest = |path: &str| Path::new(path).components().any(|part| part.as_os_str() == "manifests");
        let manifests = verified.skipped.iter().filter(|skipped| is_manifest(&skipped.path)).count();
        match manifests {
            0 => {}
            1 => sentences.push("1 manifest cannot be read; pull its model again".to_owned()),
            _ => sentences.push(format!("{manifests} manifests cannot be read; pull their models again")),
        }
        match verified.skipped.len() - manifests {
            0 => {}
            1 => sentences.push("1 library or folder cannot be read".to_owned()),
            others => sentences.push(format!("{others} libraries or folders cannot be read")),
        }
    }
    let own = |flawed: &&FlawedContents| flawed.own;
    let stays =
        |flawed: &FlawedContents| !flawed.discarded && matches!(flawed.flaw, FlawKind::Damaged | FlawKind::Length);
    if verified.flawed.iter().filter(own).any(stays) {
        sentences
            .push("`cairn verify --discard` removes damaged files, so that a pull downloads them again".to_owned());
    }
    let mut pull: Vec<&str> = verified.flawed.iter().filter(own).flat_map(|f| &f.models).map(String::as_str).collect();
    pull.sort_unstable();
    pull.dedup();
    if !pull.is_empty() {
        sentences.push(format!("pull again: cairn pull {}", pull.join(" ")));
        let first = pull.first().copied().unwrap_or_default();
        sentences.push(format!("or, for a model from a file: cairn import FILE {first}"));
    }
    if let Some(foreign) = verified.flawed.iter().find(|flawed| !flawed.own) {
        sentences.push(format!("{} is read-only for Cairn; repair it with the program that owns it", foreign.library));
    }
    Err(sentences.join("; "))
}

#[cfg(test)]
mod tests {
    use cairn_wire::app::SkippedFile;

    use super::*;

    #[test]
    fn verdict_lists_damage_and_repair_commands() {
        let sound = VerifiedModels { models: 1, contents: 3, bytes: 4_000, flawed: Vec::new(), skipped: Vec::new() };
        let expected = "1 model, 3 files, 4 KB: all match their digests\n";
        assert_eq!(verdict(&sound).as_deref(), Ok(expected), "nothing is damaged");
        let flawed = |own, flaw, discarded| FlawedContents {
            digest: "sha256:00".to_owned(),
            kind: "model".to_owned(),
            flaw,
            reason: "is damaged".to_owned(),
            models: vec!["m:latest".to_owned()],
            library: "/l".to_owned(),
            own,
            discarded,
        };
        let check = |flawed: FlawedContents, parts: &[&str], not: &str| {
            let verified = VerifiedModels { flawed: vec![flawed], ..sound.clone() };
            assert!(
                lines(&verified).starts_with("sha256:00 (model of m:latest) in /l is damaged"),
                "the blob and its model"
            );
            let error = verdict(&verified).expect_err("a file is damaged");
            for part in parts {
                assert!(error.contains(part), "{part:?} is missing from {error:?}");
            }
            assert!(!error.contains(not), "{not:?} is in {error:?}");
        };
        check(
            flawed(true, FlawKind::Damaged, false),
            &["1 of 3", "--discard", "cairn pull m:latest", "cairn import FILE m:latest"],
            "read-only",
        );
        check(flawed(true, FlawKind::Damaged, true), &["cairn pull m:latest"], "--discard");
        check(flawed(true, FlawKind::Missing, false), &["cairn pull m:latest"], "--discard");
        check(flawed(false, FlawKind::Damaged, false), &["/l is read-only"], "cairn pull");
    }

    #[test]
    fn verdict_names_kind_of_unreadable_files() {
        let check = |path: &str, expected: &str| {
            let skipped = vec![SkippedFile { path: path.to_owned(), reason: "it is no folder".to_owned() }];
            let verified = VerifiedModels { models: 0, contents: 0, bytes: 0, flawed: Vec::new(), skipped };
            assert_eq!(verdict(&verified), Err(expected.to_owned()), "{path}");
        };
        check("/l/manifests/h/n/m/t", "1 manifest cannot be read; pull its model again");
        check("/l", "1 library or folder cannot be read");
    }
}
