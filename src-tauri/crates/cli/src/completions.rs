//! `cairn completions`: completion scripts of shells. `cairn man`: manual pages, for packages.

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

/// Writes `cairn.1` and a page for each verb.
pub(crate) fn write_pages(args: &args::Man) -> anyhow::Result<()> {
    let folder = &args.folder;
    RealDisk.create_dir_all(folder)?;
    clap_mangen::generate_to(Args::command(), folder)
        .with_context(|| format!("cannot write manual pages to {}", folder.display()))
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
        write_pages(&args::Man { folder: folder.path().join("man1") }).unwrap();
        let page = |name: &str| std::fs::read_to_string(folder.path().join("man1").join(name)).unwrap_or_default();
        assert!(page("cairn.1").contains("OLLAMA_HOST"), "the settings are part of the page of `cairn`");
        for verb in Args::command().get_subcommands().filter(|verb| !verb.is_hide_set()) {
            let name = format!("cairn-{}.1", verb.get_name());
            assert!(page(&name).contains("SYNOPSIS"), "{name}");
        }
    }
}
