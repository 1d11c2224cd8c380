//! `run`: builds Cairn and starts it: the desktop app if there is a display, else the daemon with the interface in a
//! browser and a chat with Pebble in the terminal.

use std::io::{IsTerminal, Read, Write};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use anyhow::{Context, bail};

use super::Verb;
use crate::needs::{For, ensure};
use crate::{Repo, process, ui, workspace};

/// Definition of this command.
pub const VERB: Verb = Verb {
    name: "run",
    about: "Build Cairn and open it; `-- --prompt TEXT` answers once; other arguments after `--` go to `cairn`",
    run,
};

/// The built-in model.
const GUIDE: &str = "pebble";

fn run(repo: &Repo, args: &[String]) -> anyhow::Result<ExitCode> {
    let args = args.strip_prefix(&["--".to_owned()]).unwrap_or(args);
    let words = words(args)?;
    let opens_window = args.is_empty() && has_screen();
    ensure(if opens_window { For::Desktop } else { For::Page })?;
    ui::build(repo)?;
    let cairn = ["build", "--release", "--package", "cairn-cli", "--bin", "cairn"];
    let desktop: &[&str] = if opens_window { &["--package", "cairn-desktop", "--bin", "cairn-desktop"] } else { &[] };
    process::run(&mut process::cargo(repo, &[&cairn, desktop].concat()))?;
    let folder = workspace::target_folder(repo)?.join("release");
    let program = |name: &str| Command::new(folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX)));
    if opens_window {
        return hand_over(program("cairn-desktop"));
    }
    if args.is_empty() {
        // The chat in the terminal works without a browser.
        if let Err(error) = process::run(program("cairn").arg("ui")) {
            eprintln!("{error:#}");
        }
    }
    let mut cairn = program("cairn");
    cairn.args(&words);
    if args.is_empty() && !std::io::stdin().is_terminal() {
        return Ok(match answer_input(cairn, std::io::stdin())? {
            Some(status) => exit_code(status),
            None => {
                println!(
                    "Cairn is built. There is no terminal for a chat: add `-- --prompt TEXT`, or `-- serve` for the daemon."
                );
                ExitCode::SUCCESS
            }
        });
    }
    hand_over(cairn)
}

/// Whether a window can be opened. On Windows and macOS this is assumed.
fn has_screen() -> bool {
    #[expect(clippy::disallowed_methods, reason = "these variables name the display")]
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    cfg!(any(windows, target_os = "macos")) || set("DISPLAY") || set("WAYLAND_DISPLAY")
}

/// The arguments for `cairn`: a chat, one answer, or the given arguments.
fn words(args: &[String]) -> anyhow::Result<Vec<String>> {
    let guide = || vec!["run".to_owned(), GUIDE.to_owned()];
    match args {
        [] => Ok(guide()),
        [flag, prompt] if flag == "--prompt" => Ok([guide(), vec![prompt.clone()]].concat()),
        [flag, ..] if flag == "--prompt" => bail!("--prompt takes one text: --prompt \"How do I pull a model?\""),
        [word] if word.starts_with("--prompt=") => Ok([guide(), vec![word["--prompt=".len()..].to_owned()]].concat()),
        other => Ok(other.to_vec()),
    }
}

/// Answers a prompt from standard input. Returns `None` without starting `cairn` if the input is empty.
fn answer_input(mut cairn: Command, mut input: impl Read) -> anyhow::Result<Option<ExitStatus>> {
    let mut prompt = Vec::new();
    input.read_to_end(&mut prompt).context("cannot read the prompt from standard input")?;
    if prompt.trim_ascii().is_empty() {
        return Ok(None);
    }
    let mut child = cairn.stdin(Stdio::piped()).spawn().context("cannot start cairn")?;
    let mut pipe = child.stdin.take().expect("it is piped");
    // A broken pipe means that cairn exited early; its exit status is returned below.
    let _ = pipe.write_all(&prompt);
    drop(pipe);
    child.wait().context("cannot wait for cairn").map(Some)
}

/// Replaces this process by `cairn`, so that it receives signals and owns the terminal.
#[cfg(unix)]
fn hand_over(mut cairn: Command) -> anyhow::Result<ExitCode> {
    let error = std::os::unix::process::CommandExt::exec(&mut cairn);
    Err(error).context("cannot start cairn")
}

#[cfg(not(unix))]
fn hand_over(mut cairn: Command) -> anyhow::Result<ExitCode> {
    Ok(exit_code(cairn.status().context("cannot start cairn")?))
}

/// The exit code of a child process. Death by a signal counts as failure.
fn exit_code(status: ExitStatus) -> ExitCode {
    status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(args: &[&str], expected: Option<&[&str]>) {
        let args: Vec<String> = args.iter().map(ToString::to_string).collect();
        let words = words(&args).ok();
        let expected = expected.map(|words| words.iter().map(ToString::to_string).collect());
        assert_eq!(words, expected, "after `--`: {args:?}");
    }

    #[test]
    fn arguments_become_cairn_arguments() {
        check(&[], Some(&["run", "pebble"]));
        check(&["--prompt", "Hi there"], Some(&["run", "pebble", "Hi there"]));
        check(&["--prompt=Hi"], Some(&["run", "pebble", "Hi"]));
        check(&["serve"], Some(&["serve"]));
        check(&["list", "--verbose"], Some(&["list", "--verbose"]));
        check(&["--prompt"], None);
        check(&["--prompt", "a", "b"], None);
    }

    #[test]
    fn piped_input_becomes_the_prompt() {
        // Replaces cairn: exits with the number of its input bytes.
        let counter = || {
            let mut shell = Command::new("sh");
            shell.args(["-c", "exit $(wc -c)"]);
            shell
        };
        let code =
            |input: &str| answer_input(counter(), input.as_bytes()).expect("sh exists").map(|status| status.code());
        assert_eq!(code("Hello"), Some(Some(5)), "all input arrives, and the exit code is returned");
        assert_eq!(code(" \n"), None, "empty input starts no process");
    }
}
