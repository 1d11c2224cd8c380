//! Checks that each crate depends only on crates of lower layers.
//!
//! `src-tauri/ARCHITECTURE.md` describes the layers. Dev-dependencies are exempt.

use cairn_xtask::{
    Repo,
    workspace::{self, Member},
};

/// Layer of tools and tests: they may use every crate, and no crate may use them.
const TOOLS: u8 = u8::MAX;

/// Layer of each package, including planned ones.
const LAYERS: &[(&str, u8)] = &[
    ("gguf", 0),
    ("grammar", 0),
    ("hardware", 0),
    ("image", 0),
    ("disk", 0),
    ("wire", 0),
    ("words", 0),
    ("sqlite", 1),
    ("store", 1),
    ("documents", 1),
    ("kernels", 1),
    ("prompt", 1),
    ("tier", 1),
    ("chats", 2),
    ("collections", 2),
    ("tokenizer", 2),
    ("registry", 2),
    ("upstream", 2),
    ("mcp", 2),
    ("tensor", 2),
    ("gpu", 3),
    ("kv", 3),
    ("convert", 3),
    ("models", 4),
    ("runtime", 5),
    ("app", 6),
    ("http", 7),
    ("cli", 8),
    ("desktop", 8),
    ("fuzz", TOOLS),
    ("testkit", TOOLS),
    ("xtask", TOOLS),
    ("it", TOOLS),
];

/// Crates that the desktop app may use: it is an HTTP client of the daemon.
const DESKTOP_USES: &[&str] = &["disk", "wire"];

fn short(name: &str) -> &str {
    name.strip_prefix("cairn-").unwrap_or(name)
}

fn layer(name: &str) -> Option<u8> {
    LAYERS.iter().find(|(package, _)| *package == name).map(|(_, layer)| *layer)
}

/// Returns a line for each dependency that does not point to a lower layer, and for each package without a layer.
fn breaches(members: &[Member]) -> Vec<String> {
    let mut breaches = Vec::new();
    for member in members {
        let name = short(&member.name);
        let Some(from) = layer(name) else {
            breaches.push(format!("{name} has no layer: give it a row in tests/it/layers.rs and in ARCHITECTURE.md"));
            continue;
        };
        for used in members.iter().filter(|other| member.uses.contains(&other.name)) {
            let used = short(&used.name);
            let Some(to) = layer(used) else { continue };
            let down = from > to || (from == TOOLS && to == TOOLS);
            if !down || (name == "desktop" && !DESKTOP_USES.contains(&used)) {
                breaches.push(format!("{name} must not depend on {used}"));
            }
        }
    }
    breaches
}

#[test]
fn dependencies_point_to_lower_layers() {
    let members = workspace::members(&Repo::here()).expect("cargo lists the members");
    assert!(members.len() >= 4, "members are missing: {members:?}");
    let breaches = breaches(&members);
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

/// Checks an artificial workspace: packages with their dependencies.
fn check(graph: &[(&str, &[&str])], expected: &[&str]) {
    let full = |name: &str| if name == "it" { name.to_owned() } else { format!("cairn-{name}") };
    let member = |(name, uses): &(&str, &[&str])| Member {
        name: full(name),
        uses: uses.iter().map(|used| full(used)).chain(["serde".to_owned()]).collect(),
    };
    let members: Vec<Member> = graph.iter().map(member).collect();
    assert_eq!(breaches(&members), expected, "in {graph:?}");
}

#[test]
fn dependencies_that_break_the_layers_are_found() {
    check(&[("kernels", &["gguf", "hardware"]), ("gguf", &[]), ("hardware", &[])], &[]);
    check(&[("kernels", &["tensor"]), ("tensor", &["kernels"])], &["kernels must not depend on tensor"]);
    check(&[("prompt", &["store"]), ("store", &[])], &["prompt must not depend on store"]);
    check(&[("runtime", &["testkit"]), ("testkit", &[])], &["runtime must not depend on testkit"]);
    check(&[("xtask", &["testkit"]), ("testkit", &["gguf"]), ("gguf", &[]), ("it", &["xtask"])], &[]);
    check(&[("desktop", &["wire", "app"]), ("wire", &[]), ("app", &[])], &["desktop must not depend on app"]);
}

#[test]
fn package_without_a_layer_is_found() {
    check(
        &[("gguf", &["sugar"]), ("sugar", &[])],
        &["sugar has no layer: give it a row in tests/it/layers.rs and in ARCHITECTURE.md"],
    );
}
