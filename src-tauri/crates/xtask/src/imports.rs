//! Imports between the files of a crate, and the cycles that they form.
//!
//! A file imports another one if it names an item of it by a path, such as `crate::a::B` or `super::B`. A path through
//! re-exports leads to the file that defines the item. A module consists of its children, so what it uses of them is
//! not an import; what they use of the module is one. A re-export is not an import unless the file uses the name
//! itself.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::source::{Production, Token};

/// A module path from the root of its crate.
type ModulePath = Vec<String>;

/// The files of one crate target that are not tests.
#[derive(Default)]
pub(crate) struct Graph {
    files: Vec<Module>,
    by_path: HashMap<ModulePath, usize>,
}

struct Module {
    file: String,
    path: ModulePath,
    content: Content,
}

/// Declarations of a file.
#[derive(Default)]
struct Content {
    children: Vec<String>,
    uses: Vec<Use>,
    /// Paths in the code, with the number of inline modules around each.
    paths: Vec<(usize, Vec<String>)>,
    definitions: HashSet<String>,
}

struct Use {
    inline_depth: usize,
    path: Vec<String>,
    alias: String,
    is_reexport: bool,
}

impl Graph {
    /// Reads the modules that are reachable from a target's root. `read` returns the text of a file if it exists.
    pub(crate) fn read<'a>(root: &str, read: &impl Fn(&str) -> Option<&'a str>) -> Self {
        let mut graph = Self::default();
        let mut open = vec![(root.to_owned(), ModulePath::new())];
        while let Some((file, path)) = open.pop() {
            let Some(text) = read(&file) else { continue };
            let source = Production::of(text);
            let content = Content::parse(&source.tokens());
            let folder = module_folder(&file, path.is_empty());
            for child in &content.children {
                let plain = format!("{folder}/{child}.rs");
                let file = if read(&plain).is_some() { plain } else { format!("{folder}/{child}/mod.rs") };
                open.push((file, [path.as_slice(), std::slice::from_ref(child)].concat()));
            }
            graph.by_path.insert(path.clone(), graph.files.len());
            graph.files.push(Module { file, path, content });
        }
        graph
    }

    /// The files in no particular order.
    pub(crate) fn files(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|module| module.file.as_str())
    }

    /// Pairs of files where the first imports the second.
    pub(crate) fn imports(&self) -> BTreeSet<(&str, &str)> {
        let mut imports = BTreeSet::new();
        for (from, module) in self.files.iter().enumerate() {
            let used = module.content.uses.iter().filter(|import| {
                // Identifiers in the code are counted as paths of one segment too.
                !import.is_reexport || module.content.paths.iter().any(|(_, path)| path[0] == import.alias)
            });
            let used = used.map(|import| (import.inline_depth, &import.path));
            // A path of one segment may be a variable with the name of a module.
            let named = module.content.paths.iter().filter(|(_, path)| path.len() > 1);
            let named = named.map(|(depth, path)| (*depth, path));
            for (depth, path) in used.chain(named) {
                if let Some(to) = self.target(module, depth, path)
                    && to != from
                    && !self.files[to].path.starts_with(&module.path)
                {
                    imports.insert((module.file.as_str(), self.files[to].file.as_str()));
                }
            }
        }
        imports
    }

    /// The file that a path in a module leads to.
    fn target(&self, module: &Module, inline_depth: usize, path: &[String]) -> Option<usize> {
        let absolute = absolute(module, inline_depth, path)?;
        Some(self.resolve(&absolute, &mut HashSet::new()))
    }

    /// The file that defines the item of a path from the root.
    fn resolve(&self, path: &[String], seen: &mut HashSet<ModulePath>) -> usize {
        // The longest part that is a module, then a name in it.
        let length = (0..=path.len()).rev().find(|length| self.by_path.contains_key(&path[..*length])).unwrap_or(0);
        let at = self.by_path[&path[..length]];
        let Some(name) = path.get(length) else { return at };
        let module = &self.files[at];
        if !seen.insert(path.to_owned()) || module.content.definitions.contains(name) {
            return at;
        }
        let alias = module.content.uses.iter().find(|import| import.inline_depth == 0 && import.alias == *name);
        if let Some(next) = alias.and_then(|import| absolute(module, 0, &import.path)) {
            return self.resolve(&next, seen);
        }
        let globs = module.content.uses.iter().filter(|import| import.inline_depth == 0 && import.alias == "*");
        for glob in globs.filter_map(|import| absolute(module, 0, &import.path)) {
            let found = self.resolve(&[glob.as_slice(), std::slice::from_ref(name)].concat(), seen);
            if self.files[found].content.definitions.contains(name) {
                return found;
            }
        }
        at
    }
}

/// The groups of more than one node in which each reaches each, the largest first.
pub(crate) fn cycles(imports: &BTreeSet<(String, String)>) -> Vec<Vec<String>> {
    let mut next: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (from, to) in imports {
        next.entry(from).or_default().push(to);
        next.entry(to).or_default();
    }
    let reached = |start| {
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let mut open: Vec<&str> = vec![start];
        while let Some(node) = open.pop() {
            open.extend(next[node].iter().filter(|to| seen.insert(**to)));
        }
        seen
    };
    let reached: BTreeMap<&str, BTreeSet<&str>> = next.keys().map(|start| (*start, reached(start))).collect();
    let groups = reached.iter().map(|(node, seen)| {
        let group = seen.iter().filter(|other| reached[**other].contains(node));
        group.map(|other| (*other).to_owned()).collect()
    });
    let groups: BTreeSet<Vec<String>> = groups.filter(|group: &Vec<String>| group.len() > 1).collect();
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
    groups
}

/// Where a file's child modules are.
fn module_folder(file: &str, is_root: bool) -> String {
    let (folder, name) = file.rsplit_once('/').unwrap_or(("", file));
    if is_root || name == "mod.rs" { folder.to_owned() } else { format!("{folder}/{}", name.trim_end_matches(".rs")) }
}

/// A path from the root of the crate, if it leads to another module of the crate.
fn absolute(module: &Module, inline_depth: usize, path: &[String]) -> Option<ModulePath> {
    let supers = path.iter().take_while(|segment| *segment == "super").count();
    match path.first()?.as_str() {
        "crate" => Some(path[1..].to_vec()),
        "super" if supers > inline_depth => {
            let kept = module.path.len().checked_sub(supers - inline_depth)?;
            Some([&module.path[..kept], &path[supers..]].concat())
        }
        "self" if inline_depth == 0 => Some([&module.path, &path[1..]].concat()),
        first if inline_depth == 0 && module.content.children.iter().any(|child| child == first) => {
            Some([&module.path, path].concat())
        }
        _ => None,
    }
}

impl Content {
    fn parse(tokens: &[Token<'_>]) -> Self {
        let mut content = Self::default();
        // For each open brace, whether it is that of an inline module.
        let mut braces: Vec<bool> = Vec::new();
        let word = |at: usize| tokens.get(at).copied().unwrap_or_default();
        let mut at = 0;
        while at < tokens.len() {
            let inline_depth = braces.iter().filter(|inline| **inline).count();
            match tokens[at] {
                "{" => braces.push(at >= 2 && word(at - 2) == "mod"),
                "}" => drop(braces.pop()),
                "mod" if word(at + 2) == ";" => content.children.push(word(at + 1).to_owned()),
                "use" => {
                    let is_reexport = at > 0 && matches!(word(at - 1), "pub" | ")");
                    let end = at + tokens[at..].iter().position(|token| *token == ";").unwrap_or(tokens.len() - at);
                    for (path, alias) in use_tree(&tokens[at + 1..end]) {
                        content.uses.push(Use { inline_depth, path, alias, is_reexport });
                    }
                    at = end;
                }
                "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union" | "macro_rules" => {
                    let name = if word(at + 1) == "!" { word(at + 2) } else { word(at + 1) };
                    content.definitions.insert(name.to_owned());
                }
                token if starts_path(token) && (at == 0 || word(at - 1) != "::") => {
                    let mut path = vec![token.to_owned()];
                    while word(at + 1) == "::" && starts_path(word(at + 2)) {
                        path.push(word(at + 2).to_owned());
                        at += 2;
                    }
                    content.paths.push((inline_depth, path));
                }
                _ => {}
            }
            at += 1;
        }
        content
    }
}

fn starts_path(token: &str) -> bool {
    token.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic())
}

/// The paths of a `use` declaration with the name that each gets; `*` for a glob.
fn use_tree(tokens: &[Token<'_>]) -> Vec<(Vec<String>, String)> {
    let mut path: Vec<String> = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match *token {
            "::" => {}
            "*" => return vec![(path, "*".to_owned())],
            "as" => {
                let alias = tokens.get(at + 1).copied().unwrap_or_default();
                return vec![(path, alias.to_owned())];
            }
            "{" => {
                let inner = &tokens[at + 1..tokens.len().saturating_sub(1).max(at + 1)];
                let leaves = split_at_commas(inner).into_iter().flat_map(use_tree);
                return leaves
                    .map(|(rest, alias)| match &*rest {
                        [itself] if itself == "self" => {
                            let alias = if alias == "self" { path.last().cloned().unwrap_or_default() } else { alias };
                            (path.clone(), alias)
                        }
                        rest => ([path.as_slice(), rest].concat(), alias),
                    })
                    .collect();
            }
            segment => path.push(segment.to_owned()),
        }
        at += 1;
    }
    match path.last().cloned() {
        Some(alias) => vec![(path, alias)],
        None => Vec::new(),
    }
}

/// The parts of a list between commas outside of braces.
fn split_at_commas<'a, 'b>(tokens: &'b [Token<'a>]) -> Vec<&'b [Token<'a>]> {
    let mut depth = 0_i32;
    let parts = tokens.split(|token| {
        depth += i32::from(*token == "{") - i32::from(*token == "}");
        *token == "," && depth == 0
    });
    parts.filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the imports between files of a made-up crate, written as `from to`.
    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let read = |path: &str| files.iter().find(|(file, _)| *file == path).map(|(_, text)| *text);
        let graph = Graph::read("lib.rs", &|path| read(path.trim_start_matches('/')));
        let strip = |file: &str| file.trim_start_matches('/').trim_end_matches(".rs").to_owned();
        let found: Vec<String> =
            graph.imports().into_iter().map(|(from, to)| format!("{} {}", strip(from), strip(to))).collect();
        assert_eq!(found, expected, "{files:?}");
    }

    #[test]
    fn paths_to_other_files_are_imports() {
        check(
            &[
                ("lib.rs", "mod a;\nmod b;\nfn f() { b::g() }\nstruct S;"),
                ("a.rs", "use crate::b::{self, c::{D, E as F}};\nuse crate::S;"),
                ("b.rs", "mod c;\nuse super::a::X;\n#[cfg(test)]\nuse crate::S;"),
                ("b/c.rs", "use std::fs;\nfn f() { super::super::a::x() }"),
            ],
            &["a b", "a b/c", "a lib", "b a", "b/c a"],
        );
    }

    #[test]
    fn reexports_lead_to_the_definition_and_are_no_imports() {
        let root = "mod a;\nmod b;\npub use a::Thing;\npub use b::*;";
        let files = [
            ("lib.rs", root),
            ("a.rs", "pub struct Thing;\nuse crate::Glob;"),
            ("b.rs", "pub struct Glob;\nuse crate::Thing;"),
        ];
        check(&files, &["a b", "b a"]);
    }

    #[test]
    fn reexported_name_is_an_import_where_it_is_used() {
        let check = |rest: &str, expected: &[&str]| {
            let text = format!("pub use super::b::Thing;\n{rest}");
            check(&[("lib.rs", "mod a;\nmod b;"), ("a.rs", &text), ("b.rs", "pub struct Thing;")], expected);
        };
        check("", &[]);
        check("fn f(thing: Thing) {}", &["a b"]);
    }

    #[test]
    fn inline_modules_count_as_their_file() {
        check(
            &[
                ("lib.rs", "mod a;\nmod b;"),
                ("a.rs", "mod imp { use super::X; use super::super::b::Y; }"),
                ("b.rs", "pub struct Y;"),
            ],
            &["a b"],
        );
    }

    #[test]
    fn cycles_are_groups_that_reach_each_other() {
        let check = |imports: &[(&str, &str)], expected: &[&[&str]]| {
            let imports = imports.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect();
            assert_eq!(cycles(&imports), expected, "{imports:?}");
        };
        check(
            &[("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("e", "f"), ("f", "e")],
            &[&["a", "b", "c"], &["e", "f"]],
        );
        check(&[("a", "b"), ("a", "c")], &[]);
    }
}
