//! Arrows point down: a crate uses only crates of a lower layer.
//!
//! `src-tauri/ARCHITECTURE.md` draws the layers. Only what a crate uses when it runs counts; tests may use anything.

use cairn_xtask::{
    Repo,
    workspace::{self, Member},
};

/// The workshop and the tests: they may use every crate, and no crate may use them.
const WORKSHOP: u8 = u8::MAX;

/// Each package with its layer, those planned among them.
const LAYERS: &[(&str, u8)] = &[
    ("gguf", 0),
    ("hardware", 0),
    ("disk", 0),
    ("wire", 0),
    ("store", 1),
    ("chats", 1),
    ("kernels", 1),
    ("prompt", 1),
    ("tier", 1),
    ("tokenizer", 2),
    ("registry", 2),
    ("tensor", 2),
    ("gpu", 3),
    ("kv", 3),
    ("convert", 3),
    ("models", 4),
    ("runtime", 5),
    ("remote", 5),
    ("app", 6),
    ("http", 7),
    ("cli", 8),
    ("desktop", 8),
    ("fuzz", WORKSHOP),
    ("testkit", WORKSHOP),
    ("xtask", WORKSHOP),
    ("it", WORKSHOP),
];

/// What the desktop shell is: a client of the daemon, which it reaches over HTTP.
const DESKTOP_USES: &[&str] = &["disk", "wire"];

fn short(name: &str) -> &str {
    name.strip_prefix("cairn-").unwrap_or(name)
}

fn layer(name: &str) -> Option<u8> {
    LAYERS.iter().find(|(known, _)| *known == name).map(|(_, layer)| *layer)
}

/// A line for each arrow that does not point down, and each package without a layer.
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
            let down = from > to || (from == WORKSHOP && to == WORKSHOP);
            if !down || (name == "desktop" && !DESKTOP_USES.contains(&used)) {
                breaches.push(format!("{name} must not depend on {used}"));
            }
        }
    }
    breaches
}

#[test]
fn arrows_point_down() {
    let members = workspace::members(&Repo::here()).expect("cargo tells the members");
    assert!(members.len() >= 4, "these are not all members: {members:?}");
    let breaches = breaches(&members);
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
}

/// Checks a made-up workspace, given as packages with what they use.
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
fn arrows_up_sideways_and_out_of_the_workshop_are_found() {
    check(&[("kernels", &["gguf", "hardware"]), ("gguf", &[]), ("hardware", &[])], &[]);
    check(&[("kernels", &["tensor"]), ("tensor", &["kernels"])], &["kernels must not depend on tensor"]);
    check(&[("prompt", &["store"]), ("store", &[])], &["prompt must not depend on store"]);
    check(&[("runtime", &["testkit"]), ("testkit", &[])], &["runtime must not depend on testkit"]);
    check(&[("xtask", &["testkit"]), ("testkit", &["gguf"]), ("gguf", &[]), ("it", &["xtask"])], &[]);
    check(&[("desktop", &["wire", "app"]), ("wire", &[]), ("app", &[])], &["desktop must not depend on app"]);
}

#[test]
fn a_package_without_a_layer_is_found() {
    check(
        &[("gguf", &["sugar"]), ("sugar", &[])],
        &["sugar has no layer: give it a row in tests/it/layers.rs and in ARCHITECTURE.md"],
    );
}
