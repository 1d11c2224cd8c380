//! Rule for imports between the files of a package.

use std::collections::BTreeSet;

use super::{File, Tree};
use crate::imports::{Graph, cycles};

/// Folders of a package that are not production code.
const NOT_PRODUCTION: &[&str] = &["tests", "examples", "benches"];

/// No files import each other in a cycle.
pub(super) fn no_import_cycles(tree: &Tree) -> Vec<String> {
    let mut breaches = Vec::new();
    for manifest in tree.with_ending(&["Cargo.toml"]) {
        for graph in graphs(tree, manifest) {
            let imports = graph.imports().into_iter().map(|(from, to)| (from.to_owned(), to.to_owned())).collect();
            breaches.extend(cycles(&imports).iter().map(|files| {
                let (first, others) = files.split_first().expect("a cycle has files");
                format!("{first}: import cycle with {}; move what they share to a lower file", others.join(", "))
            }));
        }
    }
    breaches
}

/// The imports of each target of a package that is production code.
pub(crate) fn graphs(tree: &Tree, manifest: &File) -> Vec<Graph> {
    let folder = manifest.path.trim_end_matches("Cargo.toml");
    let named = manifest.text.lines().filter_map(|line| line.strip_prefix("path = \"")?.strip_suffix('"'));
    let named = named.filter(|path| !NOT_PRODUCTION.iter().any(|skipped| path.starts_with(skipped)));
    let usual = ["src/lib.rs", "src/main.rs", "build.rs"];
    let roots: BTreeSet<String> = usual.into_iter().chain(named).map(|path| format!("{folder}{path}")).collect();
    let read = |path: &str| tree.get(path).map(|file| file.text.as_str());
    roots.iter().map(|root| Graph::read(root, &read)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    #[test]
    fn import_cycle_is_reported_with_its_files() {
        let files = |b: &'static str| {
            [
                ("a/Cargo.toml", "[package]\nname = \"cairn-a\"\n"),
                ("a/src/lib.rs", "mod b;\nmod c;\nmod d;\n"),
                ("a/src/b.rs", b),
                ("a/src/c.rs", "use crate::d::D;\npub struct C;\n"),
                ("a/src/d.rs", "use super::b::B;\npub struct D;\n"),
            ]
        };
        check(no_import_cycles, &files("pub struct B;\n"), &[]);
        check(no_import_cycles, &files("pub struct B;\n#[cfg(test)]\nuse crate::c::C;\n"), &[]);
        let expected = "a/src/b.rs: import cycle with a/src/c.rs, a/src/d.rs;";
        check(no_import_cycles, &files("use crate::c::C;\npub struct B;\n"), &[expected]);
    }
}
