//! Full notices of third-party packages: the licence texts that a package for users must contain.
//!
//! cargo-about collects the texts of crates from their sources; `src-tauri/about.toml` and `src-tauri/about.hbs`
//! configure it. cargo-about does not support npm packages, so this module reads their texts from `node_modules`. No
//! network is used: all sources were downloaded for the build. `src-tauri/THIRD-PARTY.md` is the short list of the
//! same packages.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::cargo_tool::CargoTool;
use crate::workspace::{self, ThirdParty};
use crate::{Repo, licence, process, ui};

/// The file name of the notices.
pub(crate) const NAME: &str = "THIRD-PARTY-NOTICES.txt";
/// The tool that collects the texts of crates. Without optimisation it needs minutes to compare them.
const CARGO_ABOUT: CargoTool =
    CargoTool { name: "cargo-about", version: "0.9.3", features: &["--features", "cli"], opt_level: "2" };
const RULES: &str = "src-tauri/about.toml";
const TEMPLATE: &str = "src-tauri/about.hbs";
/// Line between two texts, also in [`TEMPLATE`].
const LINE: &str = "================================================================================";
/// Licence of the fonts of katex. The katex package contains only the licence of its code.
const FONTS: &str = "src-tauri/OFL-1.1.txt";

/// Writes the notices to the build folder and returns their path.
///
/// # Errors
/// A package has no licence text, or a file cannot be read or written.
pub(crate) fn write(repo: &Repo) -> anyhow::Result<PathBuf> {
    process::output(&mut process::cargo(repo, &["fetch", "--locked", "--quiet"]))?;
    let mut about = CARGO_ABOUT.command(repo)?;
    about.args(["generate", "--frozen", "--fail", "--workspace", "--manifest-path", "Cargo.toml"]);
    about.args(["--config", RULES, TEMPLATE]).current_dir(repo.root());
    let mut text = process::output(&mut about)?;
    let missing = missing(&text, &built(repo)?);
    if !missing.is_empty() {
        bail!("cargo-about found no licence text of {}", missing.join(", "));
    }
    ui::install(repo)?;
    for (package, folder) in licence::npm_folders(repo)? {
        let ThirdParty { name, version, licence, .. } = package;
        let licence = licence.with_context(|| format!("{name} {version} names no licence"))?;
        let own = text_of(&repo.root().join("ui").join(folder))?;
        let own = own.unwrap_or_else(|| format!("The package has no licence file. It states the licence {licence}."));
        text += &format!("\n{LINE}\n{licence}\n\n* {name} {version}\n\n{}\n", own.trim_end());
    }
    let fonts = repo.root().join(FONTS);
    let fonts = std::fs::read_to_string(&fonts).with_context(|| format!("cannot read {}", fonts.display()))?;
    text += &format!("\n{LINE}\nSIL Open Font License 1.1\n\n* the fonts of katex\n\n{}\n", fonts.trim_end());
    let path = workspace::target_folder(repo)?.join(NAME);
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// Returns the packages that the shipped programs are built from, as `name version`. `cargo metadata` also lists
/// packages of features that are off; `cargo tree` does not.
fn built(repo: &Repo) -> anyhow::Result<Vec<String>> {
    let programs = ["--package", "cairn-cli", "--package", "cairn-desktop"];
    let format = ["--edges", "no-dev", "--prefix", "none", "--format", "{p}"];
    let mut tree = process::cargo(repo, &["tree", "--frozen"]);
    tree.args(programs).args(format).args(workspace::SYSTEMS.iter().flat_map(|system| ["--target", *system]));
    let tree = process::output(&mut tree)?;
    let mut built: Vec<String> = tree.lines().filter_map(package).collect();
    built.sort();
    built.dedup();
    Ok(built)
}

/// Returns the package in a line of `cargo tree`, such as `serde v1.0.0 (proc-macro)`; `None` for a folder of this
/// workspace.
fn package(line: &str) -> Option<String> {
    let (name, rest) = line.split_once(" v")?;
    let (version, note) = rest.split_once(' ').unwrap_or((rest, ""));
    (!note.contains('/')).then(|| format!("{name} {version}"))
}

/// Returns the packages that the notices do not list.
fn missing(notices: &str, packages: &[String]) -> Vec<String> {
    let named = |package: &String| {
        let entry = format!("* {package}");
        let is_entry = |rest: &str| rest.is_empty() || rest.starts_with(' ');
        notices.lines().any(|line| line.strip_prefix(entry.as_str()).is_some_and(is_entry))
    };
    packages.iter().filter(|package| !named(package)).cloned().collect()
}

/// Returns the text of all licence files in the folder of an npm package; `None` if it has none.
fn text_of(folder: &Path) -> anyhow::Result<Option<String>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        ["licen", "copying", "notice"].iter().any(|start| name.starts_with(start))
    });
    files.sort();
    let texts: Result<Vec<String>, _> = files.iter().map(std::fs::read_to_string).collect();
    let text = texts.with_context(|| format!("cannot read a licence file in {}", folder.display()))?.join("\n");
    Ok((!text.is_empty()).then_some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_without_text_are_found() {
        let notices = "MIT License (MIT)\n\n* a 1.0.0\n* b 1.0.0 https://b.example\n\ntext\n";
        let packages = ["a 1.0.0", "b 1.0.0", "b 1.0.0-rc1", "c 1.0.0"].map(str::to_owned);
        assert_eq!(missing(notices, &packages), ["b 1.0.0-rc1", "c 1.0.0"], "whole names and versions are compared");
    }

    #[test]
    fn cargo_tree_line_yields_only_third_party_packages() {
        let check = |line: &str, expected: Option<&str>| assert_eq!(package(line).as_deref(), expected, "{line}");
        check("anyhow v1.0.0", Some("anyhow 1.0.0"));
        check("zstd-sys v2.1.2+zstd.1.5.7", Some("zstd-sys 2.1.2+zstd.1.5.7"));
        check("serde_derive v1.0.0 (proc-macro) (*)", Some("serde_derive 1.0.0"));
        check("cairn-cli v0.1.0 (/src/crates/cli)", None);
        check("", None);
    }

    #[test]
    fn template_has_the_separator() {
        let template = std::fs::read_to_string(Repo::here().root().join(TEMPLATE)).expect("it exists");
        assert!(template.lines().any(|line| line == LINE), "{TEMPLATE} separates texts as this module does");
    }
}
