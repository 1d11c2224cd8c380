//! Words of plain technical English: some are errors, and the number of others may not rise.
//!
//! Words are looked for in whole files: names, comments, texts and documents. Identifiers are split at `_` and at
//! capital letters. The Chinese texts of the interface are exempt.

use super::{File, Tree};
use crate::source;

/// Words that no file may have.
const FORBIDDEN: &[&str] = &["told", "tells", "whoever", "nobody", "somebody", "anybody", "errand", "errands"];

/// Names that no type may have: metaphors, participles and pronouns that do not say what the type is.
const FORBIDDEN_TYPES: &[&str] = &[
    "Again", "Aside", "Asked", "Asking", "Because", "Begun", "Book", "Brought", "Crew", "Desk", "Door", "Errand",
    "Far", "Given", "Gone", "Hand", "Hands", "Heard", "Held", "Here", "Kept", "Known", "Lookout", "Meant", "Quiet",
    "Reins", "Roll", "Said", "Seat", "Seen", "Sight", "SoFar", "Spell", "Spent", "Standing", "Taken", "Then", "Told",
    "UnderWay", "Wanted", "Which", "Who", "Whose", "Why", "Wish", "Wishes",
];

/// This file lists the words.
const THIS_FILE: &str = "src-tauri/crates/xtask/src/tidy/words.rs";

/// Uses of forbidden words that stay: the start of a path, the word, and the reason. At most [`MAX_ALLOWED`] rows.
const ALLOWED: &[(&str, &str, &str)] = &[];

const MAX_ALLOWED: usize = 40;

/// Words that are correct in their ordinary meaning: the phrases of each, and how often they may occur. The counts only
/// fall.
const COUNTED: &[Counted] = &[
    Counted { name: "lies", phrases: &["lies"], most: 4 },
    Counted { name: "stands", phrases: &["stands"], most: 3 },
    Counted { name: "holds against", phrases: &["hold _ against", "holds _ against", "held _ against"], most: 1 },
    Counted { name: "brings, brought", phrases: &["bring", "brings", "brought"], most: 11 },
    Counted { name: "goes on", phrases: &["go on", "goes on", "going on", "went on"], most: 10 },
    Counted { name: "comes back", phrases: &["come back", "comes back", "came back"], most: 2 },
    Counted { name: "gives way", phrases: &["give way", "gives way", "gave way"], most: 1 },
    Counted { name: "is let go", phrases: &["let go", "lets go"], most: 1 },
    Counted { name: "said, says", phrases: &["said", "says"], most: 49 },
    Counted { name: "known", phrases: &["known"], most: 165 },
    Counted { name: "what is", phrases: &["what is"], most: 71 },
    Counted { name: "who, whose", phrases: &["who", "whose"], most: 244 },
    Counted { name: "of ours", phrases: &["of ours"], most: 2 },
    Counted { name: "anew", phrases: &["anew"], most: 0 },
    Counted { name: "for good", phrases: &["for good"], most: 0 },
    Counted { name: "by itself", phrases: &["by itself"], most: 1 },
];

/// A word whose count may not rise. `_` in a phrase stands for up to three other words.
struct Counted {
    name: &'static str,
    phrases: &'static [&'static str],
    most: usize,
}

/// The least words of a test's name: subject, condition, result.
const MIN_TEST_WORDS: usize = 3;

/// First words of a test's name that hide its subject.
const NO_SUBJECT: &[&str] = &["how", "it", "that", "they", "what", "when", "where", "which", "who", "whoever", "whose"];

/// Forbidden words are not used.
pub(super) fn forbidden(tree: &Tree) -> Vec<String> {
    let mut breaches = Vec::new();
    if ALLOWED.len() > MAX_ALLOWED {
        breaches.push(format!("the list of allowed words has {} rows, more than {MAX_ALLOWED}", ALLOWED.len()));
    }
    for file in prose(tree) {
        let mut check = |number: usize, text: &str| {
            for word in words(text).filter(|word| FORBIDDEN.contains(&word.as_str()) && !is_allowed(&file.path, word)) {
                breaches.push(format!("{}:{number}: the word {word:?}: use the technical term", file.path));
            }
        };
        check(0, &file.path);
        file.lines().for_each(|(number, line)| check(number, line));
    }
    breaches
}

/// Types are named by a noun that says what they are.
pub(super) fn type_names(tree: &Tree) -> Vec<String> {
    let mut breaches = Vec::new();
    for file in tree.rust() {
        for (number, line) in file.lines() {
            let name = type_name(line).filter(|name| FORBIDDEN_TYPES.contains(name) && !is_allowed(&file.path, name));
            breaches.extend(name.map(|name| format!("{}:{number}: the type {name}: name it by a noun", file.path)));
        }
    }
    breaches
}

/// A test is named by its subject, its condition and its result.
pub(super) fn test_names(tree: &Tree) -> Vec<String> {
    let mut breaches = Vec::new();
    for file in tree.rust() {
        for (number, name) in source::test_functions(&file.text) {
            let error = test_name_error(&name);
            breaches.extend(error.map(|error| format!("{}:{number}: the test {name}: {error}", file.path)));
        }
    }
    breaches
}

fn test_name_error(name: &str) -> Option<&'static str> {
    let first = name.split('_').next().unwrap_or_default();
    if name.split('_').filter(|word| !word.is_empty()).count() < MIN_TEST_WORDS {
        Some("name its subject, its condition and its result")
    } else if NO_SUBJECT.contains(&first) {
        Some("begin with the subject")
    } else {
        None
    }
}

/// The counts of ambiguous words do not rise.
pub(super) fn counted(tree: &Tree) -> Vec<String> {
    let found = counts(tree).into_iter().zip(COUNTED);
    let risen = found.filter(|((_, count), counted)| *count > counted.most);
    risen
        .map(|((name, count), counted)| {
            format!("the word {name:?} occurs {count} times, {} are allowed; `cargo xtask tidy --words {name:?}` lists them", counted.most)
        })
        .collect()
}

/// How often each ambiguous word occurs, then each forbidden one and each forbidden type name.
pub(crate) fn counts(tree: &Tree) -> Vec<(&'static str, usize)> {
    let streams: Vec<Vec<String>> = prose(tree).map(|file| words(&file.text).collect()).collect();
    let count = |phrases: &[&str]| {
        phrases.iter().map(|phrase| streams.iter().map(|words| occurrences(words, phrase)).sum::<usize>()).sum()
    };
    let ambiguous = COUNTED.iter().map(|counted| (counted.name, count(counted.phrases)));
    let forbidden = FORBIDDEN.iter().map(|word| (*word, count(&[word])));
    let types = tree.rust().flat_map(|file| file.text.lines()).filter_map(type_name);
    let types = types.filter(|name| FORBIDDEN_TYPES.contains(name)).count();
    ambiguous.chain(forbidden).chain([("types with a forbidden name", types)]).collect()
}

/// The lines with a word, which is the name of a counted word or any other phrase: `path:line: text`. Phrases across
/// lines are not found.
pub(crate) fn places(tree: &Tree, word: &str) -> Vec<String> {
    let counted = COUNTED.iter().find(|counted| counted.name == word);
    let phrases = counted.map_or(vec![word], |counted| counted.phrases.to_vec());
    let lines = prose(tree).flat_map(|file| file.lines().map(move |(number, line)| (file, number, line)));
    let found = lines.filter(|(_, _, line)| {
        let words: Vec<String> = words(line).collect();
        phrases.iter().any(|phrase| occurrences(&words, phrase) > 0)
    });
    found.map(|(file, number, line)| format!("{}:{number}: {}", file.path, line.trim())).collect()
}

/// Files that people read, apart from Chinese ones and this one.
fn prose(tree: &Tree) -> impl Iterator<Item = &File> {
    let endings = &[".rs", ".ts", ".svelte", ".css", ".md", ".json", ".toml", ".py", ".sh", ".yml"];
    tree.with_ending(endings).filter(|file| {
        let is_data = file.path.ends_with(".json") && !file.path.starts_with("ui/src/i18n/");
        !is_data && !file.path.contains("zh-CN") && file.path != THIS_FILE
    })
}

fn is_allowed(path: &str, word: &str) -> bool {
    ALLOWED.iter().any(|(start, allowed, _)| path.starts_with(start) && (*allowed == "*" || *allowed == word))
}

/// The words of a text in small letters. Identifiers are split at `_` and where a capital begins a word.
fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_ascii_alphanumeric()).flat_map(|word| {
        let bytes = word.as_bytes();
        let mut parts = Vec::new();
        let mut start = 0;
        for at in 1..=bytes.len() {
            let begins = at < bytes.len() && bytes[at].is_ascii_uppercase() && !bytes[at - 1].is_ascii_uppercase();
            let ends_acronym =
                at + 1 < bytes.len() && bytes[at].is_ascii_uppercase() && bytes[at + 1].is_ascii_lowercase();
            if at == bytes.len() || begins || ends_acronym {
                parts.push(word[start..at].to_ascii_lowercase());
                start = at;
            }
        }
        parts.retain(|part| !part.is_empty());
        parts
    })
}

/// How often a phrase occurs in a sequence of words.
fn occurrences(words: &[String], phrase: &str) -> usize {
    let phrase: Vec<&str> = phrase.split(' ').collect();
    (0..words.len()).filter(|at| begins_with(&words[*at..], &phrase)).count()
}

fn begins_with(words: &[String], phrase: &[&str]) -> bool {
    match phrase {
        [] => true,
        ["_", rest @ ..] => (0..=3.min(words.len())).any(|skipped| begins_with(&words[skipped..], rest)),
        [first, rest @ ..] => words.first().is_some_and(|word| word == first) && begins_with(&words[1..], rest),
    }
}

/// The type that a line of Rust declares.
fn type_name(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub"));
    let keyword = words.next()?;
    let name = words.next().filter(|_| matches!(keyword, "struct" | "enum" | "trait" | "type" | "union"))?;
    name.split(|c: char| !c.is_alphanumeric()).next()
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;

    const PATH: &str = "src-tauri/crates/new/src/lib.rs";

    #[test]
    fn forbidden_words_are_found_in_names_comments_and_texts() {
        check(forbidden, &[(PATH, "/// The untold story of a teller.\nfn f() {}\n")], &[]);
        check(
            forbidden,
            &[(PATH, "//! Fine.\n// Nobody asks.\nfn what_is_told() {}\nstruct CacheErrand;\n")],
            &[":2:", ":3:", ":4:"],
        );
        check(forbidden, &[("src-tauri/new/told.rs", "")], &["told.rs:0:"]);
        check(
            forbidden,
            &[("guide.md", "Whoever reads"), ("a.json", "told"), ("ui/src/i18n/zh-CN/a.json", "told")],
            &["guide.md:1:"],
        );
    }

    #[test]
    fn forbidden_words_pass_in_this_file_only() {
        check(forbidden, &[("ui/a.ts", "nobody"), (THIS_FILE, "told")], &["ui/a.ts:1:"]);
    }

    #[test]
    fn type_names_must_be_nouns() {
        check(
            type_names,
            &[(PATH, "pub(crate) struct Known<T>(T);\nenum Whose {\ntype Kept = u8;\n")],
            &[":1:", ":2:", ":3:"],
        );
        check(type_names, &[(PATH, "struct KnownHosts;\nlet told = Known;\n// struct Known is gone\n")], &[]);
    }

    #[test]
    fn test_names_need_subject_condition_and_result() {
        let test = |name: &str| format!("#[test]\nfn {name}() {{}}\nfn helper() {{}}\n");
        check(test_names, &[(PATH, &test("pull_resumes_after_kill"))], &[]);
        check(test_names, &[(PATH, &test("pull_resumes"))], &[":2: the test pull_resumes"]);
        check(test_names, &[(PATH, &test("what_is_pulled_resumes"))], &["begin with the subject"]);
    }

    #[test]
    fn identifiers_are_split_into_words() {
        let split = |text: &str| words(text).collect::<Vec<_>>().join(" ");
        assert_eq!(
            split("let HTTPServer_id = kvCache2 + is_told;"),
            "let http server id kv cache2 is told",
            "at each capital and `_`"
        );
    }

    #[test]
    fn places_list_lines_with_the_word() {
        let tree = Tree::made_up(&[("a.rs", "fn f() {}\n// It goes on.\n"), (PATH, "// nobody\n")]);
        assert_eq!(places(&tree, "goes on"), ["a.rs:2: // It goes on."], "a counted word");
        assert_eq!(places(&tree, "nobody"), [format!("{PATH}:1: // nobody")], "another word");
    }

    #[test]
    fn phrases_may_have_a_gap() {
        let count = |text: &str, phrase: &str| occurrences(&words(text).collect::<Vec<_>>(), phrase);
        assert_eq!(count("It goes on. goes_on()", "goes on"), 2, "names count too");
        assert_eq!(
            count("holds it against x, holds against y", "holds _ against"),
            2,
            "with and without a word between"
        );
        assert_eq!(count("holds a b c d against", "holds _ against"), 0, "four words are too many");
    }
}
