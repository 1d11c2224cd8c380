//! HTML: the visible text, divided at headings.
//!
//! Specification: <https://html.spec.whatwg.org/multipage/parsing.html>. Only the tokenizer runs: without a tree, deep nesting
//! costs nothing. No script runs and no address is opened.

use std::cell::RefCell;

use encoding_rs::{Encoding, UTF_8};
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::states::RawKind;
use html5ever::tokenizer::{BufferQueue, Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts};

use crate::Error;
use crate::parts::{Parts, Section};

/// Bytes in which a page names its encoding, as in the specification.
const PRESCAN_BYTES: usize = 1024;
/// Characters of a title.
const MAX_TITLE_CHARS: usize = 300;
/// Elements with text that is not shown.
const HIDDEN: &[&str] =
    &["script", "style", "template", "noscript", "head", "svg", "iframe", "object", "select", "textarea"];
/// Elements that begin and end a line.
const BLOCKS: &[&str] = &[
    "address",
    "article",
    "aside",
    "blockquote",
    "dd",
    "details",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "header",
    "hr",
    "li",
    "main",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "summary",
    "table",
    "tr",
    "ul",
];

/// Returns the absolute address of a link, or nothing for one that should be plain text.
pub type LinkAddress<'a> = &'a dyn Fn(&str) -> Option<String>;

pub(crate) fn read(bytes: &[u8], parts: &mut Parts<'_>) -> Result<(), Error> {
    let (text, _, _) = encoding(bytes).decode(bytes);
    read_text(&text, None, parts).map(drop)
}

/// Reads a page and returns its title. With `links`, a link has its address behind its text, as in Markdown.
pub(crate) fn read_text(text: &str, links: Option<LinkAddress<'_>>, parts: &mut Parts<'_>) -> Result<String, Error> {
    if text.contains('\0') {
        return Err(Error::UnknownFormat);
    }
    let page = Page { state: RefCell::new(State::new(Section::new(parts), links)) };
    let input = BufferQueue::default();
    input.push_back(StrTendril::from_slice(text));
    let tokenizer = Tokenizer::new(page, TokenizerOpts::default());
    // A script pauses the tokenizer; it is skipped.
    while !input.is_empty() {
        let _ = tokenizer.feed(&input);
    }
    tokenizer.end();
    let mut state = tokenizer.sink.state.into_inner();
    state.flush();
    match state.failure.take() {
        Some(error) => Err(error),
        None => state.section.end().map(|()| state.title),
    }
}

/// Returns the encoding that a page names near its beginning, or else UTF-8.
pub(crate) fn encoding(bytes: &[u8]) -> &'static Encoding {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(PRESCAN_BYTES)]).to_ascii_lowercase();
    let named = start.split("charset=").nth(1).and_then(|rest| {
        let rest = rest.trim_start_matches(['"', '\'']);
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"-_:.".contains(c)).unwrap_or(rest.len());
        Encoding::for_label(&rest.as_bytes()[..end])
    });
    named.filter(|named| named.is_ascii_compatible()).unwrap_or(UTF_8)
}

struct Page<'a, 'b> {
    state: RefCell<State<'a, 'b>>,
}

/// A link around the text.
struct Link {
    address: String,
    /// Beginning of its text in the line.
    start: usize,
}

struct State<'a, 'b> {
    section: Section<'a, 'b>,
    links: Option<LinkAddress<'a>>,
    link: Option<Link>,
    /// The first [`MAX_TITLE_CHARS`] of the title.
    title: String,
    is_title: bool,
    /// Text since the last block.
    line: String,
    /// Level of the heading around the text.
    heading: Option<usize>,
    /// Name and number of the hidden element around the text, with those of the same name inside.
    hidden: Option<(String, usize)>,
    preformatted: usize,
    failure: Option<Error>,
}

impl<'a, 'b> State<'a, 'b> {
    fn new(section: Section<'a, 'b>, links: Option<LinkAddress<'a>>) -> Self {
        Self {
            section,
            links,
            link: None,
            title: String::new(),
            is_title: false,
            line: String::new(),
            heading: None,
            hidden: None,
            preformatted: 0,
            failure: None,
        }
    }

    fn attempt(&mut self, result: Result<(), Error>) {
        if let Err(error) = result {
            self.failure.get_or_insert(error);
        }
    }

    /// Begins a link.
    fn begin_link(&mut self, tag: &Tag) {
        self.end_link();
        let Some(resolve) = self.links else { return };
        let target = tag.attrs.iter().find(|attribute| &*attribute.name.local == "href");
        let address = target.and_then(|attribute| resolve(attribute.value.trim()));
        self.link = address.map(|address| Link { address, start: self.line.len() });
    }

    /// Ends the link around the text, if any. One without text is omitted.
    fn end_link(&mut self) {
        let Some(Link { address, start }) = self.link.take() else { return };
        let text = self.line[start..].trim();
        if !text.is_empty() {
            let space = if self.line[start..].starts_with(' ') { " " } else { "" };
            let linked = format!("{space}[{text}]({address})");
            self.line.truncate(start);
            self.line.push_str(&linked);
        }
    }

    /// Ends the line.
    fn flush(&mut self) {
        self.end_link();
        let line = std::mem::take(&mut self.line);
        let result = match self.heading {
            _ if self.failure.is_some() || line.trim().is_empty() => Ok(()),
            Some(level) => self.section.begin(&line, level),
            None => self.section.push(line.trim_start_matches(' ')).and_then(|()| self.section.push("\n")),
        };
        self.attempt(result);
    }

    fn text(&mut self, text: &str) {
        if self.is_title {
            let rest = MAX_TITLE_CHARS.saturating_sub(self.title.chars().count());
            self.title.extend(text.chars().take(rest));
            return;
        }
        if self.hidden.is_some() || self.failure.is_some() {
            return;
        }
        for c in text.chars() {
            let is_space = c.is_whitespace() && c != '\u{a0}' && self.preformatted == 0;
            match is_space {
                true if self.line.is_empty() || self.line.ends_with([' ', '\t']) => {}
                true => self.line.push(' '),
                false => self.line.push(c),
            }
        }
    }

    fn tag(&mut self, tag: &Tag) -> TokenSinkResult<()> {
        let name: &str = &tag.name;
        let is_start = tag.kind == TagKind::StartTag;
        // A picture in the page can have a title, too.
        self.is_title = name == "title" && is_start && self.title.is_empty();
        if let Some((hidden, depth)) = &mut self.hidden {
            // Many pages never close their head.
            let ends_head = hidden == "head" && is_start && name == "body";
            if hidden == name && !tag.self_closing {
                *depth = if is_start { *depth + 1 } else { *depth - 1 };
            }
            if *depth == 0 || ends_head {
                self.hidden = None;
            }
            return if is_start { raw(name) } else { TokenSinkResult::Continue };
        }
        match name {
            name if is_start && HIDDEN.contains(&name) && !tag.self_closing => self.hidden = Some((name.to_owned(), 1)),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.flush();
                self.heading = if is_start { name[1..].parse().ok() } else { None };
            }
            "a" if is_start => self.begin_link(tag),
            "a" => self.end_link(),
            "br" => self.line.push('\n'),
            "td" | "th" if !is_start => self.line.push('\t'),
            "pre" => {
                self.flush();
                self.preformatted = if is_start { self.preformatted + 1 } else { self.preformatted.saturating_sub(1) };
            }
            name if BLOCKS.contains(&name) && self.heading.is_none() => {
                self.flush();
                match name {
                    "li" if is_start => self.line.push_str("- "),
                    "p" | "ul" | "ol" | "table" | "blockquote" if !is_start => {
                        let result = self.section.push("\n");
                        self.attempt(result);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        if is_start { raw(name) } else { TokenSinkResult::Continue }
    }
}

/// Returns how the tokenizer reads the contents of an element: without tags in scripts, for example.
fn raw(name: &str) -> TokenSinkResult<()> {
    match name {
        "script" => TokenSinkResult::RawData(RawKind::ScriptData),
        "style" | "iframe" | "noembed" | "noframes" | "xmp" => TokenSinkResult::RawData(RawKind::Rawtext),
        "title" | "textarea" => TokenSinkResult::RawData(RawKind::Rcdata),
        _ => TokenSinkResult::Continue,
    }
}

impl TokenSink for Page<'_, '_> {
    type Handle = ();

    fn process_token(&self, token: Token, _: u64) -> TokenSinkResult<()> {
        let mut state = self.state.borrow_mut();
        match token {
            Token::TagToken(tag) => return state.tag(&tag),
            Token::CharacterTokens(text) => state.text(&text),
            _ => {}
        }
        TokenSinkResult::Continue
    }
}
