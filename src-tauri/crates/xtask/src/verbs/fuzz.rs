//! `fuzz`: runs a target of `src-tauri/fuzz` with coverage-guided input (libFuzzer,
//! <https://llvm.org/docs/LibFuzzer.html>).
//!
//! A stable compiler can add the coverage instrumentation. Sanitizers need a nightly one, but the code under test is
//! safe Rust, so they would find nothing. Inputs with new coverage are collected in the build folder. At the end, a
//! minimal set with the same coverage becomes the repository's corpus.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, bail};

use super::Verb;
use crate::needs::{For, Need, ensure, provide};
use crate::{Repo, process, workspace};

/// Definition of this command.
pub const VERB: Verb =
    Verb { name: "fuzz", about: "Fuzz a target and extend its corpus: `fuzz TARGET [--minutes N]`", run };

const TARGETS: &[&str] =
    &["gguf", "tokenizer", "template", "modelfile", "checkpoint", "chunk", "document", "grammar", "image"];

static NEED: Need =
    Need { what: "a C++ compiler (libFuzzer)", since: For::Tests, packages: &["g++"], proof: &["c++", "--version"] };

/// Compiler flags: instrumentation for libFuzzer, and checks that a release build omits.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
                     -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Cdebug-assertions \
                     -Coverflow-checks";

/// Largest input in bytes. Short inputs run fast and are enough to reach all structure.
const MAX_INPUT_BYTES: u32 = 4096;
/// Largest corpus of a target in the repository, in bytes.
const MAX_CORPUS_BYTES: u64 = 90_000;

fn run(repo: &Repo, args: &[String]) -> anyhow::Result<ExitCode> {
    let (target, time) = arguments(args)?;
    ensure(For::Tests)?;
    provide(std::iter::once(&NEED))?;
    let program = build(repo, target)?;
    let corpus = repo.root().join("src-tauri/fuzz/corpus").join(target);
    let work = workspace::target_folder(repo)?.join("fuzz").join(target);
    let (found, broken) = (work.join("found"), work.join("broken/"));
    for folder in [&found, &broken] {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let mut fuzz = libfuzzer(&program, repo, target);
    fuzz.arg(format!("-artifact_prefix={}", broken.display()));
    fuzz.args([format!("-max_total_time={}", time.as_secs()), "-print_final_stats=1".to_owned()]);
    let fuzzed = process::run(fuzz.arg(&found).arg(&corpus));
    if let Err(error) = fuzzed {
        bail!("{error}: the input is in {}; fix the cause and add the input to {}", broken.display(), corpus.display());
    }
    minimise(&program, repo, target, &work, &corpus)?;
    Ok(ExitCode::SUCCESS)
}

fn arguments(args: &[String]) -> anyhow::Result<(&str, Duration)> {
    let usage = || format!("Usage: cargo xtask fuzz TARGET [--minutes N], where TARGET is {}", TARGETS.join(", "));
    let minutes = match args {
        [_] => 5,
        // 0 means no limit to libFuzzer.
        [_, option, minutes] if option == "--minutes" => minutes.parse::<u64>().with_context(usage)?.max(1),
        _ => bail!(usage()),
    };
    match TARGETS.iter().find(|target| **target == args[0]) {
        Some(target) => Ok((target, Duration::from_secs(60 * minutes))),
        None => bail!(usage()),
    }
}

/// Builds a target's program. With an explicit `--target`, the flags do not apply to build scripts. A separate target
/// folder keeps normal builds valid.
fn build(repo: &Repo, target: &str) -> anyhow::Result<PathBuf> {
    let folder = workspace::target_folder(repo)?.join("fuzz/build");
    let triple = host()?;
    let program = format!("fuzz-{target}");
    let words = ["build", "--quiet", "--release", "--package", "cairn-fuzz", "--features", "libfuzzer"];
    let mut cargo = process::cargo(repo, &words);
    cargo.args(["--bin", &program, "--target", &triple]).arg("--target-dir").arg(&folder).env("RUSTFLAGS", FLAGS);
    process::run(&mut cargo)?;
    Ok(folder.join(triple).join("release").join(program))
}

/// This machine's target triple.
fn host() -> anyhow::Result<String> {
    let version = process::output(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).context("`rustc -vV` names the host")?;
    Ok(host.to_owned())
}

/// A target's program with the limits for all its runs.
fn libfuzzer(program: &Path, repo: &Repo, target: &str) -> Command {
    let mut command = Command::new(program);
    command.args([&format!("-max_len={MAX_INPUT_BYTES}"), "-timeout=30", "-rss_limit_mb=2048"]);
    let words = repo.root().join("src-tauri/fuzz/words").join(target);
    if words.exists() {
        command.arg(format!("-dict={}", words.display()));
    }
    command
}

/// Replaces the repository's corpus by a minimal set of inputs with the coverage of all, limited to
/// [`MAX_CORPUS_BYTES`] with the smallest first. Inputs with a name given by hand are regression tests and stay.
fn minimise(program: &Path, repo: &Repo, target: &str, work: &Path, corpus: &Path) -> anyhow::Result<()> {
    let fewest = work.join("fewest");
    if fewest.exists() {
        fs::remove_dir_all(&fewest).with_context(|| format!("cannot empty {}", fewest.display()))?;
    }
    fs::create_dir_all(&fewest).with_context(|| format!("cannot create {}", fewest.display()))?;
    // Ignore how often code is reached: counters would keep four times as many inputs.
    let mut merge = libfuzzer(program, repo, target);
    merge.args(["-set_cover_merge=1", "-use_counters=0"]).arg(&fewest).arg(corpus).arg(work.join("found"));
    process::run(&mut merge)?;

    for (path, _) in inputs(corpus)?.iter().filter(|(path, _)| is_hash(path)) {
        fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    let mut bytes: u64 = inputs(corpus)?.iter().map(|(_, bytes)| bytes).sum();
    let (mut count, mut all) = (0, 0);
    for (path, size) in inputs(&fewest)? {
        all += 1;
        bytes += size;
        if bytes <= MAX_CORPUS_BYTES {
            let name = path.file_name().context("an input has a name")?;
            fs::copy(&path, corpus.join(name)).with_context(|| format!("cannot copy {}", path.display()))?;
            count += 1;
        }
    }
    println!("{}: {count} of {all} inputs are in the corpus", corpus.display());
    Ok(())
}

/// Whether an input has a name from libFuzzer: the SHA-1 of its content.
fn is_hash(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.len() == 40 && name.bytes().all(|letter| letter.is_ascii_hexdigit())
}

/// The files of a folder with their sizes in bytes, the smallest first.
fn inputs(folder: &Path) -> anyhow::Result<Vec<(PathBuf, u64)>> {
    let listed = || -> std::io::Result<Vec<(PathBuf, u64)>> {
        let entries = fs::read_dir(folder)?;
        entries.map(|entry| entry.and_then(|entry| Ok((entry.path(), entry.metadata()?.len())))).collect()
    };
    let mut inputs = listed().with_context(|| format!("cannot list {}", folder.display()))?;
    inputs.sort_by_key(|(path, bytes)| (*bytes, path.clone()));
    Ok(inputs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_match_the_fuzz_crate() {
        let manifest = Repo::here().root().join("src-tauri/fuzz/Cargo.toml");
        let manifest = fs::read_to_string(manifest).expect("the manifest exists");
        for target in TARGETS {
            assert!(manifest.contains(&format!("name = \"fuzz-{target}\"")), "{target} has a program");
        }
        assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len(), "each program has a target");
    }

    #[test]
    fn arguments_are_parsed() {
        let check = |words: &[&str], expected: Option<(&str, u64)>| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            let found = arguments(&words).ok().map(|(target, time)| (target, time.as_secs()));
            assert_eq!(found, expected, "{words:?}");
        };
        check(&["gguf"], Some(("gguf", 300)));
        check(&["template", "--minutes", "60"], Some(("template", 3600)));
        check(&[], None);
        check(&["all"], None);
        check(&["gguf", "--minutes"], None);
        check(&["gguf", "--minutes", "many"], None);
    }

    #[test]
    fn only_libfuzzer_names_are_hashes() {
        assert!(is_hash(Path::new("corpus/da39a3ee5e6b4b0d3255bfef95601890afd80709")), "a SHA-1");
        assert!(!is_hash(Path::new("corpus/wide-key")), "a name given by hand");
    }
}
