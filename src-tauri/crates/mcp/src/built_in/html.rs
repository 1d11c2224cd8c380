//! The text of an HTML page: one pass without a tree, so that work and memory are linear in the length of the page.
//!
//! Scripts, styles and other invisible parts are dropped. Headings, lists and links become Markdown. The pass is tolerant as a
//! browser is: text that is not a tag is text.

use std::fmt::Write;

use reqwest::Url;

/// Elements without text.
const INVISIBLE: [&str; 7] = ["script", "style", "noscript", "template", "svg", "iframe", "math"];
/// Elements that begin a new line.
const BLOCKS: [&str; 31] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "br",
    "dd",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "li",
    "main",
    "nav",
    "ol",
    "p",
    "section",
    "table",
    "tr",
    "ul",
];
/// Longest URL of a link that is kept.
const MAX_LINK_BYTES: usize = 500;

/// Returns the title and the text of a page. Relative links are resolved against `base`.
#[must_use]
pub fn html_to_text(html: &str, base: Option<&Url>) -> (String, String) {
    let mut page = Page { base, ..Page::default() };
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        page.text(&rest[..at]);
        rest = page.markup(&rest[at..]);
    }
    page.text(rest);
    let title = page.title.split_whitespace().collect::<Vec<_>>().join(" ");
    (title, page.out.trim().to_owned())
}

#[derive(Default)]
struct Page<'a> {
    base: Option<&'a Url>,
    out: String,
    title: String,
    is_title: bool,
    /// Whether a head was read. A second one would be searched to the end of the page again.
    has_head: bool,
    /// Depth of `pre` elements.
    pre: usize,
    /// Whether a space precedes the next word.
    has_space: bool,
    /// Where the text of the open link begins, and its URL.
    link: Option<(usize, String)>,
}

impl Page<'_> {
    fn text(&mut self, raw: &str) {
        if raw.is_empty() {
            return;
        }
        let text = decode(raw);
        if self.is_title {
            self.title.push_str(&text);
            return;
        }
        if self.pre > 0 {
            self.out.push_str(&text);
            return;
        }
        for (number, word) in text.split(|c: char| c.is_whitespace() && c != '\u{a0}').enumerate() {
            self.has_space |= number > 0;
            if word.is_empty() {
                continue;
            }
            if self.has_space && !self.out.is_empty() && !self.out.ends_with(['\n', ' ', '[']) {
                self.out.push(' ');
            }
            self.has_space = false;
            self.out.push_str(word);
        }
    }

    /// Reads the markup at the beginning of `rest`, which begins with `<`. Returns the rest behind it.
    fn markup<'t>(&mut self, rest: &'t str) -> &'t str {
        if let Some(comment) = rest.strip_prefix("<!--") {
            return comment.find("-->").map_or("", |end| &comment[end + 3..]);
        }
        let is_close = rest.starts_with("</");
        let inner = &rest[if is_close { 2 } else { 1 }..];
        if !inner.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '!' | '?')) {
            self.text("<");
            return &rest[1..];
        }
        let Some(end) = tag_end(inner) else { return "" };
        let (tag, after) = (&inner[..end], &inner[end + 1..]);
        let length = tag.find(|c: char| c.is_whitespace() || c == '/').unwrap_or(tag.len());
        let name = tag[..length].to_ascii_lowercase();
        let is_empty = tag.ends_with('/');
        match &*name {
            "title" => self.is_title = !is_close && self.title.is_empty(),
            // The title is in the head, so the head is read for it only.
            "head" if !is_close && !self.has_head => return self.head(after),
            _ if INVISIBLE.contains(&&*name) && !is_close && !is_empty => return skip(after, &name),
            "pre" => self.preformatted(is_close),
            "a" => self.anchor(is_close, tag),
            "td" | "th" if !is_close => self.cell(),
            _ if BLOCKS.contains(&&*name) => self.block(&name, is_close),
            _ => {}
        }
        after
    }

    fn head<'t>(&mut self, rest: &'t str) -> &'t str {
        self.has_head = true;
        let end = find_ignoring_case(rest, "</head").or_else(|| find_ignoring_case(rest, "<body")).unwrap_or(0);
        let head = &rest[..end];
        if let Some(start) = find_ignoring_case(head, "<title") {
            let title = &head[start..];
            let title = title.find('>').map_or("", |begin| &title[begin + 1..]);
            self.title = decode(&title[..find_ignoring_case(title, "</title").unwrap_or(title.len())]);
        }
        &rest[end..]
    }

    fn preformatted(&mut self, is_close: bool) {
        self.line();
        self.pre = if is_close { self.pre.saturating_sub(1) } else { self.pre + 1 };
        self.out.push_str("```\n");
    }

    fn anchor(&mut self, is_close: bool, tag: &str) {
        if let Some((start, url)) = self.link.take() {
            if self.out.len() > start + 1 {
                let _ = write!(self.out, "]({url})");
            } else {
                self.out.truncate(start);
            }
        }
        if !is_close && let Some(url) = self.target(tag) {
            if self.has_space && !self.out.is_empty() && !self.out.ends_with(['\n', ' ']) {
                self.out.push(' ');
            }
            self.has_space = false;
            self.link = Some((self.out.len(), url));
            self.out.push('[');
        }
    }

    /// Returns the URL of a link to another page of the web.
    fn target(&self, tag: &str) -> Option<String> {
        let href = decode(attribute(tag, "href")?);
        if href.starts_with('#') || href.len() > MAX_LINK_BYTES {
            return None;
        }
        let url = match self.base {
            Some(base) => base.join(href.trim()).ok()?,
            None => Url::parse(href.trim()).ok()?,
        };
        let is_web = matches!(url.scheme(), "http" | "https") && url.as_str().len() <= MAX_LINK_BYTES;
        is_web.then(|| url.into())
    }

    fn cell(&mut self) {
        if !self.out.ends_with('\n') && !self.out.is_empty() {
            self.out.push_str(" | ");
        }
    }

    fn block(&mut self, name: &str, is_close: bool) {
        self.line();
        let level = name.strip_prefix('h').and_then(|level| level.parse::<usize>().ok());
        match level {
            Some(level) if !is_close => {
                self.paragraph();
                self.out.push_str(&"#".repeat(level));
                self.out.push(' ');
            }
            Some(_) => self.paragraph(),
            None if name == "li" && !is_close => self.out.push_str("- "),
            None if name == "p" => self.paragraph(),
            None => {}
        }
    }

    /// Ends the line.
    fn line(&mut self) {
        self.has_space = false;
        while self.out.ends_with(' ') {
            self.out.pop();
        }
        if !self.out.is_empty() && !self.out.ends_with('\n') {
            self.out.push('\n');
        }
    }

    /// Ends the paragraph.
    fn paragraph(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }
}

/// Returns the position of the `>` that ends a tag. One in a quoted value does not.
fn tag_end(tag: &str) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in tag.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(at),
            (None, b'"' | b'\'') if at > 0 && tag[..at].trim_end().ends_with('=') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            _ => {}
        }
    }
    None
}

/// Returns the rest behind the end of an element, and drops its contents.
fn skip<'t>(rest: &'t str, name: &str) -> &'t str {
    let Some(at) = find_ignoring_case(rest, &format!("</{name}")) else { return "" };
    let rest = &rest[at..];
    rest.find('>').map_or("", |end| &rest[end + 1..])
}

/// Returns the position of an ASCII text in lower case.
fn find_ignoring_case(text: &str, lower: &str) -> Option<usize> {
    text.as_bytes().windows(lower.len()).position(|window| window.eq_ignore_ascii_case(lower.as_bytes()))
}

/// Returns the value of an attribute of a tag.
fn attribute<'t>(tag: &'t str, name: &str) -> Option<&'t str> {
    let mut rest = tag;
    loop {
        let at = find_ignoring_case(rest, name)?;
        let is_start = at > 0 && rest[..at].ends_with(|c: char| c.is_whitespace() || matches!(c, '"' | '\''));
        rest = &rest[at + name.len()..];
        let Some(value) = rest.trim_start().strip_prefix('=').filter(|_| is_start) else { continue };
        let value = value.trim_start();
        return match value.chars().next() {
            Some(quote @ ('"' | '\'')) => value[1..].split(quote).next(),
            _ => value.split(|c: char| c.is_whitespace()).next(),
        };
    }
}

/// Replaces character references.
fn decode(text: &str) -> String {
    /// Longest reference that is looked for.
    const MAX_REFERENCE: usize = 10;
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let end = rest.bytes().take(MAX_REFERENCE).position(|byte| byte == b';');
        match end.and_then(|end| Some((character(&rest[..end])?, end))) {
            Some((c, end)) => {
                out.push(c);
                rest = &rest[end + 1..];
            }
            None => out.push('&'),
        }
    }
    out.push_str(rest);
    out
}

fn character(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16).ok()?,
            None => number.parse().ok()?,
        };
        return char::from_u32(code).filter(|c| !c.is_control() || c.is_whitespace());
    }
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        "ndash" => '–',
        "mdash" => '—',
        "hellip" => '…',
        "lsquo" => '‘',
        "rsquo" => '’',
        "ldquo" => '“',
        "rdquo" => '”',
        "laquo" => '«',
        "raquo" => '»',
        "copy" => '©',
        "reg" => '®',
        "deg" => '°',
        "times" => '×',
        "euro" => '€',
        "middot" => '·',
        "bull" => '•',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(html: &str, expected: &str) {
        let base = Url::parse("https://example.com/docs/a.html").unwrap();
        assert_eq!(html_to_text(html, Some(&base)).1, expected, "{html}");
    }

    #[test]
    fn text_has_no_markup() {
        check("<p>Hello <b>wor</b>ld</p>", "Hello world");
        check("a<br>b<div>c</div>d", "a\nb\nc\nd");
        check("<script>if (a<b) {}</script>x<STYLE>p{}</STYLE>y<!-- <p>z -->", "xy");
        check("1 < 2 &amp;&amp; 3 &gt; 2 &#65;&#x42;&unknown; &", "1 < 2 && 3 > 2 AB&unknown; &");
        check("  many\n\n   spaces\t here ", "many spaces here");
    }

    #[test]
    fn structure_becomes_markdown() {
        check("<h2>Title</h2><p>One</p><p>Two</p>", "## Title\n\nOne\n\nTwo");
        check("<ul><li>a<li>b</ul>", "- a\n- b");
        check("<table><tr><td>a<td>b<tr><td>c</table>", "a | b\nc");
        check("<pre>a  b\n c</pre>", "```\na  b\n c\n```");
        check(
            "See <a class=x href=\"b.html?x=1&amp;y=2\">the page</a>.",
            "See [the page](https://example.com/docs/b.html?x=1&y=2).",
        );
        check("<a href='#top'>Top</a><a href=\"javascript:alert(1)\">x</a><a href=/c></a>", "Topx");
    }

    #[test]
    fn title_is_read_from_the_head() {
        let html = "<html><head><meta x><TITLE>A &amp;\n B</TITLE><style>x</style></head><body>c</body>";
        assert_eq!(html_to_text(html, None), ("A & B".to_owned(), "c".to_owned()));
    }

    #[test]
    fn broken_pages_end() {
        for html in [
            "<",
            "<p",
            "</",
            "<!--",
            "<script>",
            "<a href='x>",
            "<head>",
            "&#x110000;",
            "<a href=",
            "<é>",
            "<p é='>'>ä",
        ] {
            let _ = html_to_text(html, None);
        }
        let deep = "<div>".repeat(100_000) + "x";
        assert_eq!(html_to_text(&deep, None).1, "x");
        assert_eq!(html_to_text(&("<head>".repeat(100_000) + "x"), None).1, "x");
    }
}
