//! Unicode classes of characters for splitting text into words.
//!
//! The ranges come from `regex-syntax`, so that hand-written splitters and regular expressions agree on every
//! character. They are expanded once to pages of 256 characters. Equal pages are shared; a lookup takes two reads.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex_syntax::hir::{Class as HirClass, HirKind};

/// Class of a character. `Space` is `\s` (White_Space), the others are general categories. `Control` is Cc, Cf and Co
/// without white space; `Other` is unassigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Class {
    Other,
    Letter,
    Number,
    Mark,
    Punctuation,
    Symbol,
    Control,
    Space,
}

const PAGE: usize = 256;

struct Classes {
    /// Page of each block of 256 characters.
    page_of: Vec<u16>,
    pages: Vec<[Class; PAGE]>,
}

static CLASSES: LazyLock<Classes> = LazyLock::new(Classes::build);

/// Returns the class of `letter`.
#[inline]
pub(crate) fn class_of(letter: char) -> Class {
    CLASSES.of(letter)
}

impl Classes {
    #[inline]
    fn of(&self, letter: char) -> Class {
        let code = letter as usize;
        let page = self.page_of.get(code / PAGE).and_then(|&page| self.pages.get(usize::from(page)));
        page.and_then(|page| page.get(code % PAGE)).copied().unwrap_or(Class::Other)
    }

    fn build() -> Classes {
        let mut all = vec![Class::Other; char::MAX as usize + 1];
        let named = [
            (r"\p{L}", Class::Letter),
            (r"\p{N}", Class::Number),
            (r"\p{M}", Class::Mark),
            (r"\p{P}", Class::Punctuation),
            (r"\p{S}", Class::Symbol),
            (r"[\p{Cc}\p{Cf}\p{Co}]", Class::Control),
            // Last, because tabs and line breaks are control characters as well.
            (r"\s", Class::Space),
        ];
        for (pattern, class) in named {
            for (first, last) in ranges(pattern) {
                for place in all.iter_mut().take(last as usize + 1).skip(first as usize) {
                    *place = class;
                }
            }
        }
        let mut page_numbers: HashMap<[Class; PAGE], u16> = HashMap::new();
        let mut classes = Classes { page_of: Vec::new(), pages: Vec::new() };
        for (page, _) in all.as_chunks::<PAGE>().0.iter().zip(0_u16..) {
            let next = u16::try_from(classes.pages.len()).unwrap_or(u16::MAX);
            let place = *page_numbers.entry(*page).or_insert(next);
            if place == next {
                classes.pages.push(*page);
            }
            classes.page_of.push(place);
        }
        classes
    }
}

/// Returns the ranges of a pattern that is one character class.
fn ranges(pattern: &str) -> Vec<(char, char)> {
    let hir = regex_syntax::parse(pattern).expect("the patterns above are valid");
    match hir.kind() {
        HirKind::Class(HirClass::Unicode(class)) => class.iter().map(|range| (range.start(), range.end())).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_agree_with_the_standard_library() {
        for letter in '\0'..=char::MAX {
            let class = class_of(letter);
            assert_eq!(class == Class::Space, letter.is_whitespace(), "white space {letter:?}");
            assert!(class != Class::Letter || letter.is_alphabetic(), "every letter is alphabetic: {letter:?}");
        }
    }

    #[test]
    fn class_of_example_characters_is_correct() {
        let wanted = [
            ('a', Class::Letter),
            ('漢', Class::Letter),
            ('½', Class::Number),
            ('\u{301}', Class::Mark),
            ('!', Class::Punctuation),
            ('€', Class::Symbol),
            ('\u{200b}', Class::Control),
            ('\n', Class::Space),
            ('\u{378}', Class::Other),
        ];
        for (letter, class) in wanted {
            assert_eq!(class_of(letter), class, "{letter:?}");
        }
    }
}
