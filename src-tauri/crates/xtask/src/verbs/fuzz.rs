//! `fuzz`: gives a target of `src-tauri/fuzz` arbitrary input, guided by what it reaches.
//!
//! The programs are built with the coverage that libFuzzer (<https://llvm.org/docs/LibFuzzer.html>) asks for, which this
//! compiler does without a nightly one; the code under test is safe Rust, so the sanitizers that need one would find
//! nothing. All inputs that reach something new gather in the build folder. At the end the fewest that reach as much become
//! the repository's corpus.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, bail};

use super::Verb;
use super::setup::{For, Need, ensure, provide};
use crate::{Repo, process, workspace};

/// The row of this verb.
pub const VERB: Verb =
    Verb { name: "fuzz", about: "Fuzz a target and keep what it finds: `fuzz TARGET [--minutes N]`", run };

const TARGETS: &[&str] = &["gguf", "tokenizer", "template", "modelfile", "chunk"];

static NEED: Need =
    Need { what: "a C++ compiler (libFuzzer)", since: For::Tests, packages: &["g++"], proof: &["c++", "--version"] };

/// What instruments the code for libFuzzer, and checks that a release build would leave out.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
                     -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Cdebug-assertions \
                     -Coverflow-checks";

/// The most bytes of one input. Structure shows in few bytes, and short inputs run fast.
const MAX_INPUT_BYTES: u32 = 4096;
/// The most bytes of a target's corpus in the repository.
const MAX_CORPUS_BYTES: u64 = 90_000;

fn run(repo: &Repo, args: &[String]) -> anyhow::Result<ExitCode> {
    let (target, time) = arguments(args)?;
    ensure(For::Tests)?;
    provide(std::iter::once(&NEED))?;
    let program = build(repo, target)?;
    let kept = repo.root().join("src-tauri/fuzz/corpus").join(target);
    let work = workspace::target_folder(repo)?.join("fuzz").join(target);
    let (found, broken) = (work.join("found"), work.join("broken/"));
    for folder in [&found, &broken] {
        fs::create_dir_all(folder).with_context(|| format!("could not make {}", folder.display()))?;
    }
    let mut fuzz = libfuzzer(&program, repo, target);
    fuzz.arg(format!("-artifact_prefix={}", broken.display()));
    fuzz.args([format!("-max_total_time={}", time.as_secs()), "-print_final_stats=1".to_owned()]);
    let fuzzed = process::run(fuzz.arg(&found).arg(&kept));
    if let Err(error) = fuzzed {
        bail!("{error}: the input is in {}; mend the cause and add it to {}", broken.display(), kept.display());
    }
    minimise(&program, repo, target, &work, &kept)?;
    Ok(ExitCode::SUCCESS)
}

fn arguments(args: &[String]) -> anyhow::Result<(&str, Duration)> {
    let usage = || format!("Usage: cargo xtask fuzz TARGET [--minutes N], where TARGET is {}", TARGETS.join(", "));
    let minutes = match args {
        [_] => 5,
        // Zero would mean no limit to libFuzzer.
        [_, option, minutes] if option == "--minutes" => minutes.parse::<u64>().with_context(usage)?.max(1),
        _ => bail!(usage()),
    };
    match TARGETS.iter().find(|target| **target == args[0]) {
        Some(target) => Ok((target, Duration::from_secs(60 * minutes))),
        None => bail!(usage()),
    }
}

/// Builds a target's program. A target that is named keeps the flags away from build scripts, and a folder of its own keeps
/// ordinary builds as they are.
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

/// The name of this machine's target, as the compiler tells it.
fn host() -> anyhow::Result<String> {
    let told = process::output(Command::new("rustc").arg("-vV"))?;
    let host = told.lines().find_map(|line| line.strip_prefix("host: ")).context("`rustc -vV` names the host")?;
    Ok(host.to_owned())
}

/// A target's program with the limits that hold for all its runs.
fn libfuzzer(program: &Path, repo: &Repo, target: &str) -> Command {
    let mut command = Command::new(program);
    command.args([&format!("-max_len={MAX_INPUT_BYTES}"), "-timeout=30", "-rss_limit_mb=2048"]);
    let words = repo.root().join("src-tauri/fuzz/words").join(target);
    if words.exists() {
        command.arg(format!("-dict={}", words.display()));
    }
    command
}

/// Makes the repository's corpus the fewest inputs that reach what all do, the smallest first where they are too many. Inputs
/// with a name of their own once broke a promise and stay.
fn minimise(program: &Path, repo: &Repo, target: &str, work: &Path, kept: &Path) -> anyhow::Result<()> {
    let fewest = work.join("fewest");
    if fewest.exists() {
        fs::remove_dir_all(&fewest).with_context(|| format!("could not empty {}", fewest.display()))?;
    }
    fs::create_dir_all(&fewest).with_context(|| format!("could not make {}", fewest.display()))?;
    // What is reached counts, and not how often: that would keep four times as many.
    let mut merge = libfuzzer(program, repo, target);
    merge.args(["-set_cover_merge=1", "-use_counters=0"]).arg(&fewest).arg(kept).arg(work.join("found"));
    process::run(&mut merge)?;

    for (path, _) in inputs(kept)?.iter().filter(|(path, _)| is_hash(path)) {
        fs::remove_file(path).with_context(|| format!("could not remove {}", path.display()))?;
    }
    let mut bytes: u64 = inputs(kept)?.iter().map(|(_, bytes)| bytes).sum();
    let (mut count, mut all) = (0, 0);
    for (path, size) in inputs(&fewest)? {
        all += 1;
        bytes += size;
        if bytes <= MAX_CORPUS_BYTES {
            let name = path.file_name().context("an input has a name")?;
            fs::copy(&path, kept.join(name)).with_context(|| format!("could not copy {}", path.display()))?;
            count += 1;
        }
    }
    println!("{}: {count} of {all} inputs are kept", kept.display());
    Ok(())
}

/// Whether an input has the name that libFuzzer gives: the SHA-1 of its content.
fn is_hash(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.len() == 40 && name.bytes().all(|letter| letter.is_ascii_hexdigit())
}

/// The files of a folder with their sizes, the smallest first.
fn inputs(folder: &Path) -> anyhow::Result<Vec<(PathBuf, u64)>> {
    let listed = || -> std::io::Result<Vec<(PathBuf, u64)>> {
        let entries = fs::read_dir(folder)?;
        entries.map(|entry| entry.and_then(|entry| Ok((entry.path(), entry.metadata()?.len())))).collect()
    };
    let mut inputs = listed().with_context(|| format!("could not list {}", folder.display()))?;
    inputs.sort_by_key(|(path, bytes)| (*bytes, path.clone()));
    Ok(inputs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_those_of_the_crate() {
        let manifest = Repo::here().root().join("src-tauri/fuzz/Cargo.toml");
        let manifest = fs::read_to_string(manifest).expect("the crate is there");
        for target in TARGETS {
            assert!(manifest.contains(&format!("name = \"fuzz-{target}\"")), "{target} is a program");
        }
        assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len(), "each program is a target");
    }

    #[test]
    fn words_are_understood() {
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
    fn only_names_that_libfuzzer_gives_are_replaced() {
        assert!(is_hash(Path::new("corpus/da39a3ee5e6b4b0d3255bfef95601890afd80709")), "a SHA-1");
        assert!(!is_hash(Path::new("corpus/wide-key")), "a name of our own");
    }
}
