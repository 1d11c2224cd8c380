//! `cairn completions`: completion scripts of shells. `cairn man`: manual pages.

use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use anyhow::Context;
use cairn_disk::{Disk, RealDisk};

use crate::args::{self, Args};
use crate::output;

/// Prints the script for a shell.
pub(crate) fn print(args: &args::Completions) -> anyhow::Result<()> {
    output::print(&script(args.shell))
}

fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "cairn", &mut script);
    String::from_utf8(script).expect("verbs and flags are ASCII")
}

/// Prints a manual page, or writes all pages to a folder.
pub(crate) fn man(args: &args::Man) -> anyhow::Result<()> {
    match &args.dir {
        Some(folder) => write_pages(folder),
        None => output::print(&page(&args.verb)?),
    }
}

/// Writes `cairn.1` and a page for each verb.
fn write_pages(folder: &Path) -> anyhow::Result<()> {
    RealDisk.create_dir_all(folder)?;
    clap_mangen::generate_to(Args::command(), folder)
        .with_context(|| format!("cannot write manual pages to {}", folder.display()))
}

/// Returns the page of `cairn`, or of a verb and the verbs below it.
fn page(verb: &[String]) -> anyhow::Result<String> {
    let mut command = Args::command().disable_help_subcommand(true);
    command.build();
    let mut found = &command;
    for word in verb {
        found = found
            .find_subcommand(word)
            .with_context(|| format!("there is no verb {:?}; `cairn --help` lists the verbs", verb.join(" ")))?;
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(found.clone()).render(&mut page).context("cannot write the manual page")?;
    Ok(String::from_utf8(page).expect("verbs, flags and their descriptions are UTF-8"))
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn script_of_every_shell_completes_visible_verbs() {
        for shell in Shell::value_variants() {
            let script = script(*shell);
            for verb in ["bench", "doctor", "logs", "downloads"] {
                assert!(script.contains(verb), "{shell} completes {verb}");
            }
        }
    }

    #[test]
    fn manual_has_a_page_for_every_visible_verb() {
        let folder = tempfile::tempdir().unwrap();
        write_pages(&folder.path().join("man1")).unwrap();
        let page = |name: &str| std::fs::read_to_string(folder.path().join("man1").join(name)).unwrap_or_default();
        assert!(page("cairn.1").contains("OLLAMA_HOST"), "the settings are part of the page of `cairn`");
        for verb in Args::command().get_subcommands().filter(|verb| !verb.is_hide_set()) {
            let name = format!("cairn-{}.1", verb.get_name());
            assert!(page(&name).contains("SYNOPSIS"), "{name}");
        }
    }

    #[test]
    fn page_of_a_verb_has_its_name_and_flags() {
        let check = |verb: &[&str], parts: &[&str]| {
            let verb: Vec<String> = verb.iter().map(|word| (*word).to_owned()).collect();
            let page = page(&verb).unwrap();
            assert!(parts.iter().all(|part| page.contains(part)), "{verb:?}: {page}");
        };
        check(&[], &[".TH cairn 1", "OLLAMA_HOST", "cairn\\-run(1)"]);
        check(&["run"], &["cairn\\-run", "keepalive", "dimensions"]);
        check(&["ls"], &["cairn\\-list"]);
        check(&["cache", "top"], &["cairn\\-cache\\-top"]);
        let error = page(&["cache".to_owned(), "x".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("there is no verb \"cache x\""), "{error}");
    }
}
