//! `count`: size and structure of the code, as tables in Markdown: production lines, public items, imports between
//! files and import cycles, exact version pins, and the words that `tidy` counts.
//!
//! Production lines are not blank, not only a comment, not generated and not part of a test. Files under `tests`,
//! `examples` and `benches` are not counted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};

use super::Verb;
use crate::imports::cycles;
use crate::source::Production;
use crate::tidy::cycles::graphs;
use crate::tidy::{File, Tree, words};
use crate::{Repo, workspace};

/// Definition of this command.
pub const VERB: Verb = Verb {
    name: "count",
    about: "Print lines, public items, imports, cycles and counted words: `count [--root DIR] [--order CRATE:A,B+C]` (low to high)",
    run,
};

/// Files of the interface that are generated.
const GENERATED: &[&str] = &["ui/src/api/types.ts"];

fn run(repo: &Repo, args: &[String]) -> anyhow::Result<ExitCode> {
    let mut repo = repo.clone();
    let mut order = None;
    for pair in args.chunks(2) {
        match pair {
            [flag, folder] if flag == "--root" => repo = Repo::at(PathBuf::from(folder)),
            [flag, given] if flag == "--order" => order = Some(Order::parse(given)?),
            other => bail!("unexpected arguments {other:?}"),
        }
    }
    print!("{}", report(&Tree::read(&repo)?, order.as_ref()));
    Ok(ExitCode::SUCCESS)
}

/// The counts of one crate.
#[derive(Default)]
struct Crate {
    lines: usize,
    public_items: usize,
    files: usize,
    imports: BTreeSet<(String, String)>,
    cycles: Vec<Vec<String>>,
    /// Cycles where a file and the folder of its modules are one.
    module_cycles: Vec<Vec<String>>,
}

fn report(tree: &Tree, order: Option<&Order>) -> String {
    let mut text = String::new();
    let mut put = |line: String| {
        text += &line;
        text.push('\n');
    };
    let crates = crates(tree);
    let columns = ["crate", "production lines", "public items", "files", "imports between files", "import cycles"];
    let columns = [columns.as_slice(), &["files in cycles", "cycles of top-level modules"]].concat();
    put(format!("| {} |\n|---|{}", columns.join(" | "), "---:|".repeat(columns.len() - 1)));
    let row = |name: &str, crates: &[&Crate]| {
        let sum = |count: fn(&Crate) -> usize| crates.iter().map(|found| count(found)).sum::<usize>();
        format!(
            "| {name} | {} | {} | {} | {} | {} | {} | {} |",
            sum(|found| found.lines),
            sum(|found| found.public_items),
            sum(|found| found.files),
            sum(|found| found.imports.len()),
            sum(|found| found.cycles.len()),
            sum(|found| found.cycles.iter().map(Vec::len).sum()),
            sum(|found| found.module_cycles.len())
        )
    };
    let (tools, shipped): (Vec<_>, Vec<_>) =
        crates.iter().partition(|(name, _)| workspace::TOOLS.contains(&format!("cairn-{name}").as_str()));
    for (group, title) in [(&shipped, "**all shipped crates**"), (&tools, "**all tools**")] {
        for (name, found) in group {
            put(row(name, &[found]));
        }
        put(row(title, &group.iter().map(|(_, found)| *found).collect::<Vec<_>>()));
    }
    put(format!("| ui | {} | | {} | | | |", interface(tree).0, interface(tree).1));

    for (title, cycles) in [
        ("Import cycles between files", (|found| &found.cycles) as fn(&Crate) -> &Vec<Vec<String>>),
        ("Import cycles between top-level modules", |found| &found.module_cycles),
    ] {
        put(format!("\n## {title}\n"));
        for (name, found) in &crates {
            for cycle in cycles(found) {
                put(format!("- {name}: {}", cycle.join(", ")));
            }
        }
    }
    if let Some(order) = order {
        let found = crates.get(&order.name).map(|found| order.against(&found.imports)).unwrap_or_default();
        put(format!("\n## Imports of {} against the order\n\n{} imports\n", order.name, found.len()));
        for (from, to) in found {
            put(format!("- {from} imports {to}"));
        }
    }
    put("\n## Exact version pins\n".into());
    let pins = pins(tree);
    put(format!("{} pins{}", pins.len(), pins.iter().map(|pin| format!("\n- {pin}")).collect::<String>()));
    put("\n## Words\n\n| word | count |\n|---|---:|".into());
    for (word, count) in words::counts(tree) {
        put(format!("| {word} | {count} |"));
    }
    text
}

/// The crates by name. The desktop shell is `desktop`.
fn crates(tree: &Tree) -> BTreeMap<String, Crate> {
    let mut crates = BTreeMap::new();
    for manifest in tree.with_ending(&["Cargo.toml"]).filter(|file| file.text.contains("[package]")) {
        let package = manifest.text.lines().find_map(|line| line.strip_prefix("name = \"cairn-"));
        // The package of the journeys has no production code.
        if let Some(name) = package {
            crates.insert(name.trim_end_matches('"').to_owned(), count(tree, manifest));
        }
    }
    crates
}

fn count(tree: &Tree, manifest: &File) -> Crate {
    let folder = manifest.path.trim_end_matches("Cargo.toml");
    let mut found = Crate::default();
    let mut files = BTreeSet::new();
    let strip = |file: &str| file.trim_start_matches(&format!("{folder}src/")).trim_end_matches(".rs").to_owned();
    for graph in graphs(tree, manifest) {
        files.extend(graph.files().map(str::to_owned));
        let imports = graph.imports();
        let imports = imports.into_iter().map(|(from, to)| (strip(from), strip(to))).collect();
        found.cycles.extend(cycles(&imports));
        found.module_cycles.extend(cycles(&top_level(&imports)));
        found.imports.extend(imports);
    }
    found.files = files.len();
    for text in files.iter().filter_map(|file| tree.get(file)).map(|file| file.text.as_str()) {
        let source = Production::of(text);
        found.lines += source.lines();
        found.public_items += public_items(&source);
    }
    found
}

/// Imports between top-level modules.
fn top_level(imports: &BTreeSet<(String, String)>) -> BTreeSet<(String, String)> {
    let module = |file: &String| file.split('/').next().unwrap_or_default().to_owned();
    let imports = imports.iter().map(|(from, to)| (module(from), module(to)));
    imports.filter(|(from, to)| from != to).collect()
}

/// Functions, methods, types, traits and values that are `pub`, without `pub(crate)` and without re-exports.
fn public_items(source: &Production) -> usize {
    let tokens = source.tokens();
    let is_item = |rest: &[&str]| {
        let keyword = rest.iter().skip(1).find(|token| !matches!(**token, "unsafe" | "async" | "extern"));
        keyword.is_some_and(|keyword| {
            matches!(*keyword, "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union")
        })
    };
    (0..tokens.len()).filter(|at| tokens[*at] == "pub" && is_item(&tokens[*at..])).count()
}

/// Lines and files of the interface that are neither tests nor generated.
fn interface(tree: &Tree) -> (usize, usize) {
    let sources = tree.with_ending(&[".ts", ".svelte", ".css"]).filter(|file| {
        file.path.starts_with("ui/src/") && !file.path.ends_with(".test.ts") && !GENERATED.contains(&file.path.as_str())
    });
    let counts: Vec<usize> = sources.map(|file| web_lines(&file.text)).collect();
    (counts.iter().sum(), counts.len())
}

/// Lines of TypeScript, Svelte or CSS that are not blank and do not begin with a comment.
fn web_lines(text: &str) -> usize {
    let mut end = None;
    let mut lines = 0;
    for line in text.lines().map(str::trim) {
        if let Some(mark) = end {
            if line.contains(mark) {
                end = None;
            }
            continue;
        }
        let block = [("/*", "*/"), ("<!--", "-->")].into_iter().find(|(start, _)| line.starts_with(start));
        match block {
            Some((_, mark)) if !line.contains(mark) => end = Some(mark),
            Some(_) => {}
            None => lines += usize::from(!line.is_empty() && !line.starts_with("//")),
        }
    }
    lines
}

/// Dependencies with an exact version.
fn pins(tree: &Tree) -> Vec<String> {
    let manifests = tree.with_ending(&["Cargo.toml"]);
    let lines = manifests.flat_map(|file| file.lines().map(move |(_, line)| (file.path.as_str(), line)));
    let pinned = lines.filter(|(_, line)| {
        line.split("\"=").nth(1).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    });
    pinned.map(|(path, line)| format!("{path}: {}", line.split('=').next().unwrap_or_default().trim())).collect()
}

/// The layers of a crate's top-level modules, from low to high. A module may import those of lower layers and its own.
struct Order {
    name: String,
    layers: Vec<Vec<String>>,
}

impl Order {
    /// Reads `CRATE:a,b+c`, where `b` and `c` share a layer. The root of the crate is `lib`.
    fn parse(given: &str) -> anyhow::Result<Self> {
        let (name, layers) = given.split_once(':').context("--order takes CRATE:MODULE,MODULE+MODULE")?;
        let layers = layers.split(',').map(|layer| layer.split('+').map(str::to_owned).collect()).collect();
        Ok(Self { name: name.to_owned(), layers })
    }

    fn against(&self, imports: &BTreeSet<(String, String)>) -> Vec<(String, String)> {
        let layer = |file: &str| {
            let module = file.split('/').next().unwrap_or_default();
            self.layers.iter().position(|layer| layer.iter().any(|name| name == module))
        };
        let is_against = |(from, to): &&(String, String)| {
            let (from_module, to_module) = (from.split('/').next(), to.split('/').next());
            from_module != to_module && matches!((layer(from), layer(to)), (Some(from), Some(to)) if from <= to)
        };
        imports.iter().filter(is_against).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        Tree::made_up(files)
    }

    #[test]
    fn crate_counts_leave_out_tests() {
        let tree = tree(&[
            (
                "a/Cargo.toml",
                "[package]\nname = \"cairn-a\"\n[dependencies]\nx = \"=1.2\"\ny = { version = \"=3\" }\nz = \"1\"\n",
            ),
            ("a/src/lib.rs", "mod b;\n#[cfg(test)]\nmod tests;\npub fn f() {}\npub(crate) fn g() {}\n"),
            ("a/src/b.rs", "use crate::f;\npub struct S;\nimpl S {\n    pub const fn new() {}\n}\n"),
            ("a/src/tests.rs", "fn t() {}\n"),
            ("a/tests/it.rs", "fn t() {}\n"),
        ]);
        let crates = crates(&tree);
        let found = &crates["a"];
        assert_eq!((found.lines, found.public_items, found.files), (8, 3, 2), "two files are production code");
        assert_eq!(found.imports.len(), 1, "b imports the root");
        assert_eq!(pins(&tree), ["a/Cargo.toml: x", "a/Cargo.toml: y"], "z is not pinned");
    }

    #[test]
    fn web_comments_are_not_counted() {
        assert_eq!(
            web_lines("<!-- a\nb -->\n<p>https://x</p>\n\n// c\n/* d */\nlet e = 1;\n/**\n * f\n */\n"),
            2,
            "a tag and a statement"
        );
    }

    #[test]
    fn imports_against_an_order_are_listed() {
        let order = Order::parse("app:low,mid+other,lib").expect("it is an order");
        let imports =
            [("low", "mid"), ("mid/x", "low"), ("mid", "mid/x"), ("other", "mid"), ("new", "low"), ("mid", "lib")];
        let imports = imports.into_iter().map(|(from, to)| (from.to_owned(), to.to_owned())).collect();
        let found: Vec<String> = order.against(&imports).into_iter().map(|(from, to)| format!("{from} {to}")).collect();
        assert_eq!(found, ["low mid", "mid lib", "other mid"], "modules without a layer are left out");
    }
}
