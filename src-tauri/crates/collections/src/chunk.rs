//! Division of documents into chunks: passages that are found and embedded as a whole.
//!
//! A chunk has sentences of one part of the document: never of two pages, sheets, slides or sections. It has about 200 tokens,
//! which fit the context of small embedding models, and ends at the end of a paragraph if possible. The next chunk of the part
//! repeats its last sentence if that is short, so that a statement of two sentences is in one chunk.

use cairn_wire::app::documents::{DocumentPart, PartPlace};

/// Width of a full chunk, about 200 tokens.
const MAX_WIDTH: usize = 900;
/// Width from which a chunk ends at the end of a paragraph.
const MIN_WIDTH: usize = MAX_WIDTH * 3 / 5;
/// Width from which a sentence without an end is divided between two words.
const MAX_SENTENCE_WIDTH: usize = MAX_WIDTH / 2;
/// Most width that the next chunk repeats.
const MAX_OVERLAP_WIDTH: usize = 150;
/// Width of a character of a script without spaces. Tokenizers have about one token for it, and one for four Latin letters.
const DENSE_WIDTH: usize = 3;
/// Percentage of characters from which a chunk is in a script without spaces.
const DENSE_PERCENT: u8 = 30;

/// Passage of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Place of its part in the document.
    pub place: PartPlace,
    /// Its text.
    pub text: String,
    /// Byte offset in the text of the part.
    pub start: usize,
    /// Byte offset of its end.
    pub end: usize,
    /// Whether it is in a script without spaces, for example Chinese.
    pub is_dense: bool,
}

/// Returns the chunks of a document.
#[must_use]
pub fn chunks(parts: &[DocumentPart]) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    for DocumentPart { place, text } in parts {
        chunks.extend(ranges(&sentences(text)).into_iter().map(|(start, end)| Chunk {
            place: place.clone(),
            text: text[start..end].to_owned(),
            start,
            end,
            is_dense: is_dense(&text[start..end]),
        }));
    }
    chunks
}

/// Returns whether a text is in a script without spaces, for example Chinese.
pub(crate) fn is_dense(text: &str) -> bool {
    cairn_words::dense_percent(text) >= DENSE_PERCENT
}

/// Sentence or line of a part, as byte offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sentence {
    start: usize,
    end: usize,
    width: usize,
    ends_paragraph: bool,
}

fn sentences(text: &str) -> Vec<Sentence> {
    let mut sentences: Vec<Sentence> = Vec::new();
    let mut open: Option<Sentence> = None;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, next)| *next);
        let ends_paragraph = c == '\n' && next == Some('\n');
        if c.is_whitespace() && open.is_none() {
            if let Some(last) = sentences.last_mut() {
                last.width += 1;
                last.ends_paragraph |= ends_paragraph;
            }
            continue;
        }
        let sentence = open.get_or_insert(Sentence { start: at, end: at, width: 0, ends_paragraph: false });
        sentence.width += if cairn_words::is_dense(c) { DENSE_WIDTH } else { 1 };
        if !c.is_whitespace() {
            sentence.end = at + c.len_utf8();
        }
        sentence.ends_paragraph |= ends_paragraph;
        let is_end = match c {
            '\n' | '。' | '！' | '？' | '；' => true,
            '.' | '!' | '?' => next.is_none_or(char::is_whitespace),
            c => c.is_whitespace() && sentence.width >= MAX_SENTENCE_WIDTH,
        };
        if is_end || sentence.width + DENSE_WIDTH > MAX_WIDTH {
            sentences.extend(open.take());
        }
    }
    sentences.extend(open);
    sentences
}

/// Joins sentences to chunks. Returns byte offsets.
fn ranges(sentences: &[Sentence]) -> Vec<(usize, usize)> {
    let mut ranges = Vec::new();
    // Sentences from `first` to `new` are repeated from the last chunk.
    let (mut first, mut new) = (0, 0);
    while new < sentences.len() {
        let mut width: usize = sentences[first..new].iter().map(|sentence| sentence.width).sum();
        let (mut next, mut paragraph) = (new, None);
        while let Some(sentence) = sentences.get(next) {
            if next > new && width + sentence.width > MAX_WIDTH {
                break;
            }
            width += sentence.width;
            next += 1;
            if sentence.ends_paragraph && width >= MIN_WIDTH {
                paragraph = Some(next);
            }
        }
        if next < sentences.len() {
            next = paragraph.unwrap_or(next);
        }
        ranges.push((sentences[first].start, sentences[next - 1].end));
        // At least one sentence is not repeated.
        let least = new + 1;
        (first, new) = (next, next);
        let mut overlap = 0;
        while first > least && next < sentences.len() && overlap + sentences[first - 1].width <= MAX_OVERLAP_WIDTH {
            first -= 1;
            overlap += sentences[first].width;
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(text: &str) -> Vec<Chunk> {
        chunks(&[DocumentPart { place: PartPlace::Whole, text: text.to_owned() }])
    }

    fn texts(text: &str) -> Vec<String> {
        whole(text).into_iter().map(|chunk| chunk.text).collect()
    }

    #[test]
    fn short_parts_are_one_chunk_each() {
        let part = |number, text: &str| DocumentPart { place: PartPlace::Page { number }, text: text.to_owned() };
        let found = chunks(&[part(1, "One. Two."), part(2, "Three.\n\nFour."), part(3, " ")]);
        let places: Vec<_> = found.iter().map(|chunk| (chunk.place.clone(), chunk.text.as_str())).collect();
        let page = |number| PartPlace::Page { number };
        assert_eq!(places, [(page(1), "One. Two."), (page(2), "Three.\n\nFour.")], "no chunk has text of two pages");
    }

    #[test]
    fn long_parts_end_at_paragraphs_and_repeat_a_short_sentence() {
        let sentence = |n: usize| format!("Sentence number {n} of the text has some words.");
        let paragraph = |from: usize| (from..from + 6).map(sentence).collect::<Vec<_>>().join(" ");
        let text = [paragraph(0), paragraph(10), paragraph(20), paragraph(30)].join("\n\n");
        let found = texts(&text);
        assert!(found.len() > 1, "{found:?}");
        assert!(found[0].ends_with(&sentence(25)), "the chunk ends with its third paragraph: {}", found[0]);
        assert!(found[1].starts_with(&sentence(23)), "three short sentences are repeated: {}", found[1]);
        assert!(found[1].ends_with(&sentence(35)), "{}", found[1]);
        let joined = "x".repeat(2000);
        assert_eq!(texts(&joined).concat(), joined, "a text without spaces is divided anywhere");
    }

    #[test]
    fn characters_of_dense_scripts_are_wider() {
        let found = whole(&"今天我们讨论数据库的备份策略。".repeat(60));
        assert!(found.len() >= 3 && found.iter().all(|chunk| chunk.is_dense), "{} chunks", found.len());
        assert!(
            found.iter().all(|chunk| chunk.text.chars().count() <= MAX_WIDTH / DENSE_WIDTH),
            "about 300 characters"
        );
        assert!(!whole("The word 备份 in an English sentence.")[0].is_dense, "few characters");
    }

    proptest! {
        #[test]
        fn chunks_have_all_words_in_order(text in "([a-z]{1,12}[.!]?[ \n]{1,2}|[一-三]{1,3}。?|\\n\\n){0,300}") {
            let found = whole(&text);
            let mut end = 0;
            for chunk in &found {
                prop_assert_eq!(&text[chunk.start..chunk.end], &chunk.text);
                prop_assert!(chunk.end > end, "each chunk has new text");
                prop_assert!(text[end.min(chunk.start)..chunk.start].trim().is_empty(), "no word is left out");
                let width: usize = chunk.text.chars().map(|c| if cairn_words::is_dense(c) { DENSE_WIDTH } else { 1 }).sum();
                prop_assert!(width <= MAX_WIDTH + MAX_OVERLAP_WIDTH, "{width}");
                end = chunk.end;
            }
            prop_assert!(text[end..].trim().is_empty(), "the end of the text");
        }
    }
}
