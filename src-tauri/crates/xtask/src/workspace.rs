//! The workspace and its dependencies, from `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::Context;
use serde_json::Value;

use crate::{Repo, process};

/// A package of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Name, such as `cairn-gguf`.
    pub name: String,
    /// Names of its dependencies, without those for tests and build scripts.
    pub uses: Vec<String>,
}

/// A third-party package that shipped programs contain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThirdParty {
    /// Its name in its registry.
    pub name: String,
    /// Version of the package.
    pub version: String,
    /// Its licences as an SPDX expression, if it names any.
    pub licence: Option<String>,
    /// The address of its source, if it names one.
    pub repository: Option<String>,
}

/// Packages that are not shipped.
pub(crate) const TOOLS: &[&str] = &["cairn-fuzz", "cairn-testkit", "cairn-xtask", "it"];

/// Lists the packages of this workspace.
///
/// # Errors
/// Cargo cannot be started or cannot read a manifest.
pub fn members(repo: &Repo) -> anyhow::Result<Vec<Member>> {
    let metadata = metadata(repo, &["--no-deps"])?;
    list(&metadata, "packages")?
        .iter()
        .map(|package| {
            let uses = list(package, "dependencies")?.iter().filter(|dependency| dependency["kind"].is_null());
            Ok(Member {
                name: text(package, "name")?,
                uses: uses.map(|used| text(used, "name")).collect::<Result<_, _>>()?,
            })
        })
        .collect()
}

/// Cargo's target folder.
///
/// # Errors
/// As [`members`].
pub fn target_folder(repo: &Repo) -> anyhow::Result<PathBuf> {
    Ok(text(&metadata(repo, &["--no-deps"])?, "target_directory")?.into())
}

/// Builds all programs and examples of the workspace for debugging. Cargo chooses the features of a dependency by the
/// selected targets: a build of these programs alone, or without examples, would compile most dependencies again before
/// `cargo test --workspace` compiles them with the features that tests add.
///
/// # Errors
/// A program does not compile.
pub fn build_programs(repo: &Repo) -> anyhow::Result<()> {
    process::run(&mut process::cargo(repo, &["build", "--workspace", "--bins", "--examples", "--quiet"]))
}

/// The path of a program that [`build_programs`] built.
///
/// # Errors
/// As [`members`].
pub fn program(repo: &Repo, name: &str) -> anyhow::Result<PathBuf> {
    Ok(target_folder(repo)?.join("debug").join(format!("{name}{}", std::env::consts::EXE_SUFFIX)))
}

/// The supported systems. Dependencies for other systems only are never part of a build.
pub(crate) const SYSTEMS: &[&str] = &[
    "x86_64-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "x86_64-pc-windows-msvc",
    "aarch64-pc-windows-msvc",
    "x86_64-apple-darwin",
    "aarch64-apple-darwin",
];

/// Every package from elsewhere that is linked into, or runs while building, something that users get, on any system
/// that Cairn is made for, in order of name and version.
///
/// # Errors
/// As [`members`]; cargo also fetches what only other systems use, so a network may be needed.
pub fn third_party(repo: &Repo) -> anyhow::Result<Vec<ThirdParty>> {
    let systems: Vec<&str> = SYSTEMS.iter().flat_map(|system| ["--filter-platform", *system]).collect();
    reachable(&metadata(repo, &systems)?)
}

fn reachable(metadata: &Value) -> anyhow::Result<Vec<ThirdParty>> {
    let mut packages = BTreeMap::new();
    for package in list(metadata, "packages")? {
        packages.insert(text(package, "id")?, package);
    }
    let mut uses = BTreeMap::new();
    for node in list(&metadata["resolve"], "nodes")? {
        let mut ids = Vec::new();
        for used in list(node, "deps")? {
            if list(used, "dep_kinds")?.iter().any(|kind| kind["kind"] != "dev") {
                ids.push(text(used, "pkg")?);
            }
        }
        uses.insert(text(node, "id")?, ids);
    }
    let mut open = Vec::new();
    for member in list(metadata, "workspace_members")? {
        let id = member.as_str().context("a member is named by its id")?.to_owned();
        let package = packages.get(&id).context("a member is a package")?;
        if !TOOLS.contains(&text(package, "name")?.as_str()) {
            open.push(id);
        }
    }
    let mut seen = BTreeSet::new();
    let mut found = BTreeSet::new();
    while let Some(id) = open.pop() {
        let package = packages.get(&id).with_context(|| format!("{id} is a package"))?;
        // A package without a source is a folder of this workspace.
        if !package["source"].is_null() {
            let field = |name: &str| package[name].as_str().map(str::to_owned);
            found.insert(ThirdParty {
                name: text(package, "name")?,
                version: text(package, "version")?,
                licence: field("license"),
                repository: field("repository"),
            });
        }
        if seen.insert(id.clone()) {
            open.extend(uses.remove(&id).unwrap_or_default());
        }
    }
    Ok(found.into_iter().collect())
}

fn metadata(repo: &Repo, args: &[&str]) -> anyhow::Result<Value> {
    let words = [&["metadata", "--format-version", "1", "--quiet"], args].concat();
    let json = process::output(&mut process::cargo(repo, &words))?;
    serde_json::from_str(&json).context("`cargo metadata` printed text that is not JSON")
}

fn list<'a>(value: &'a Value, field: &str) -> anyhow::Result<&'a Vec<Value>> {
    value[field].as_array().with_context(|| format!("`cargo metadata` lacks the list {field:?}"))
}

fn text(value: &Value, field: &str) -> anyhow::Result<String> {
    let text = value[field].as_str().with_context(|| format!("`cargo metadata` lacks the text {field:?}"))?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn third_party_lists_only_shipped_packages() {
        let package = |name: &str, source: Option<&str>| json!({"id": name, "name": name, "version": "1.0.0", "license": "MIT", "source": source});
        let node = |name: &str, deps: &[(&str, Option<&str>)]| {
            let deps: Vec<_> =
                deps.iter().map(|(pkg, kind)| json!({"pkg": pkg, "dep_kinds": [{"kind": kind}]})).collect();
            json!({"id": name, "deps": deps})
        };
        let elsewhere = Some("registry");
        let metadata = json!({
            "packages": [
                package("cairn-app", None), package("cairn-disk", None), package("cairn-xtask", None), package("linked", elsewhere),
                package("builds", elsewhere), package("deeper", elsewhere), package("tests-only", elsewhere), package("tools-only", elsewhere),
            ],
            "workspace_members": ["cairn-app", "cairn-disk", "cairn-xtask"],
            "resolve": {"nodes": [
                node("cairn-app", &[("linked", None), ("cairn-disk", None), ("tests-only", Some("dev"))]),
                node("cairn-disk", &[("builds", Some("build"))]),
                node("cairn-xtask", &[("tools-only", None)]),
                node("linked", &[("deeper", None)]),
                node("deeper", &[("linked", Some("dev"))]),
            ]},
        });
        let names: Vec<String> =
            reachable(&metadata).expect("it is whole").into_iter().map(|found| found.name).collect();
        assert_eq!(names, ["builds", "deeper", "linked"], "neither dev-dependencies nor dependencies of tools");
    }

    #[test]
    fn members_lists_this_workspace() {
        let members = members(&Repo::here()).expect("cargo is installed");
        let xtask = members.iter().find(|member| member.name == "cairn-xtask").expect("this crate is a member");
        assert_eq!(
            xtask.uses,
            ["anyhow", "serde_json", "syn"],
            "this crate is compiled first, so it has few dependencies"
        );
    }
}
