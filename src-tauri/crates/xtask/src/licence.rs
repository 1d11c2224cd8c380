//! Dependencies of shipped programs: cargo-deny checks crates, this module checks npm packages and lists both.
//!
//! `.cargo/deny.toml` has the rules and the allowed licences. cargo-deny does not know npm packages, so this module
//! compares their licences with the same list.

use std::fmt::Write;

use anyhow::Context;
use serde_json::Value;

use crate::workspace::{self, ThirdParty, third_party as shipped};
use crate::{Repo, process};

/// The lock file of the interface's packages.
const NPM_LOCK: &str = "ui/package-lock.json";
/// The rules for dependencies.
const RULES: &str = ".cargo/deny.toml";
/// The version of cargo-deny that is installed.
const CARGO_DENY: &str = "0.20.2";

/// A line for each npm package with a licence that is not allowed, and the output of cargo-deny if it fails.
///
/// # Errors
/// A file cannot be read, or cargo-deny cannot be installed.
pub(crate) fn breaches(repo: &Repo) -> anyhow::Result<Vec<String>> {
    let allowed = allowed(&read(repo, RULES)?);
    let mut breaches: Vec<String> = npm(repo)?.iter().filter_map(|package| breach(&allowed, package)).collect();
    // cargo-deny works offline, so the crates of all systems must be downloaded.
    process::output(&mut process::cargo(repo, &["fetch", "--locked", "--quiet"]))?;
    let mut deny = cargo_deny(repo)?;
    deny.args(["--offline", "--locked", "--workspace", "--config", RULES]);
    deny.args(["check", "bans", "licenses", "sources"]).current_dir(repo.root());
    breaches.extend(process::output(&mut deny).err().map(|error| format!("{RULES}: {error:#}")));
    Ok(breaches)
}

/// cargo-deny, installed once in the build folder. Without optimisation it compiles in two CPU minutes.
fn cargo_deny(repo: &Repo) -> anyhow::Result<std::process::Command> {
    let folder = workspace::target_folder(repo)?.join("tools").join(format!("cargo-deny-{CARGO_DENY}"));
    let program = folder.join("bin").join(format!("cargo-deny{}", std::env::consts::EXE_SUFFIX));
    if !program.exists() {
        let words = ["install", "cargo-deny", "--version", CARGO_DENY, "--locked", "--debug", "--no-default-features"];
        let build = folder.join("build");
        let mut install = process::cargo(repo, &words);
        install.arg("--root").arg(&folder).env("CARGO_TARGET_DIR", &build).env("CARGO_PROFILE_DEV_DEBUG", "0");
        process::run(&mut install)?;
        std::fs::remove_dir_all(&build).with_context(|| format!("cannot remove {}", build.display()))?;
    }
    Ok(std::process::Command::new(program))
}

fn read(repo: &Repo, path: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(repo.root().join(path)).with_context(|| format!("cannot read {path}"))
}

/// The licences under `allow` in the rules of cargo-deny.
fn allowed(rules: &str) -> Vec<String> {
    let list = rules.split("\nallow = [").nth(1).and_then(|rest| rest.split(']').next()).unwrap_or_default();
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The error for a package, unless one of its alternative licences is allowed.
fn breach(allowed: &[String], package: &ThirdParty) -> Option<String> {
    let ThirdParty { name, version, licence, .. } = package;
    let expression = licence.as_deref().unwrap_or("none");
    let mut choices = expression.trim_matches(['(', ')']).split(" OR ");
    let is_allowed = choices.any(|choice| allowed.iter().any(|allowed| allowed == choice));
    (!is_allowed).then(|| format!("{NPM_LOCK}: licence {expression:?} of {name} {version} is not in {RULES}"))
}

/// The packages that the interface contains, without those that only build and test it.
fn npm(repo: &Repo) -> anyhow::Result<Vec<ThirdParty>> {
    packages(&serde_json::from_str(&read(repo, NPM_LOCK)?).with_context(|| format!("{NPM_LOCK} is not JSON"))?)
}

/// The packages of an npm lock file that are not for development:
/// <https://docs.npmjs.com/cli/configuring-npm/package-lock-json>.
fn packages(lock: &Value) -> anyhow::Result<Vec<ThirdParty>> {
    let all = lock["packages"].as_object().context("the lock file has no packages")?;
    let text = |package: &Value, field: &str| package[field].as_str().map(str::to_owned);
    let mut packages = Vec::new();
    for (path, package) in all {
        // The interface itself has an empty path.
        if let Some((_, name)) = path.rsplit_once("node_modules/")
            && package["dev"] != true
        {
            let version = text(package, "version").with_context(|| format!("{path} has no version"))?;
            let licence = text(package, "license");
            packages.push(ThirdParty { name: name.to_owned(), version, licence, repository: None });
        }
    }
    packages.sort();
    Ok(packages)
}

/// The text of `src-tauri/THIRD-PARTY.md`: all third-party packages of shipped programs.
///
/// # Errors
/// As [`workspace::third_party`] and [`npm`].
pub(crate) fn third_party(repo: &Repo) -> anyhow::Result<String> {
    let mut text = String::from(
        "# Third-party code\n\nThird-party packages in Cairn's programs, on all systems. Generated by `cargo xtask gen`.\n\n| package | version | licence |\n|---|---|---|\n",
    );
    for ThirdParty { name, version, licence, repository } in shipped(repo)?.into_iter().chain(npm(repo)?) {
        let name = repository.map_or_else(|| name.clone(), |address| format!("[{name}]({address})"));
        let licence = licence.as_deref().unwrap_or("see its source");
        writeln!(text, "| {name} | {version} | {licence} |").expect("writing to a String cannot fail");
    }
    text += "\nThe fonts of formulas come with katex and are under the SIL Open Font License 1.1 (<https://openfontlicense.org>).\n";
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn npm_packages_omit_dev_dependencies() {
        let lock = serde_json::json!({ "packages": {
            "": { "name": "page" },
            "node_modules/b/node_modules/@c/d": { "version": "2.0.0", "license": "MIT" },
            "node_modules/b": { "version": "1.0.0" },
            "node_modules/tool": { "version": "1.0.0", "dev": true, "license": "GPL-3.0-only" },
        } });
        let found = packages(&lock).expect("it is a lock file");
        let names: Vec<_> = found.iter().map(|package| (package.name.as_str(), package.licence.as_deref())).collect();
        assert_eq!(names, [("@c/d", Some("MIT")), ("b", None)], "by name, with their licences");
    }

    #[test]
    fn npm_licences_must_be_allowed() {
        let allowed = allowed("# allow\n[licenses]\nallow = [\n    \"MIT\",\n    \"Zlib\",\n]\nother = [\"GPL\"]\n");
        assert_eq!(allowed, ["MIT", "Zlib"], "the list under `allow`");
        let check = |licence: Option<&str>, expected: bool| {
            let (name, version) = ("a".to_owned(), "1.2.3".to_owned());
            let package = ThirdParty { name, version, licence: licence.map(str::to_owned), repository: None };
            let error = breach(&allowed, &package);
            assert_eq!(error.is_none(), expected, "{licence:?}: {error:?}");
            assert!(error.is_none_or(|error| error.contains("a 1.2.3")), "the error names the package");
        };
        check(Some("MIT"), true);
        check(Some("(GPL-3.0-only OR Zlib)"), true);
        check(Some("GPL-3.0-only"), false);
        check(Some("MIT AND GPL-3.0-only"), false);
        check(None, false);
    }
}
