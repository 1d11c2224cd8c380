//! A page of the web as text with its links, for models that read pages.

use encoding_rs::{Encoding, UTF_8};

use crate::html::{self, LinkAddress};
use crate::parts::Parts;
use crate::{Error, Limits};

/// The text of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebPage {
    /// Title, possibly empty.
    pub title: String,
    /// Visible text. A link has its address behind its text, as in Markdown.
    pub text: String,
}

/// Returns the text of a page. `encoding` is the label in the header `Content-Type`; it has precedence over the page's own.
/// `links` returns the absolute address of a link.
///
/// # Errors
/// If the page exceeds a limit or is not text. A page without text is no error.
pub fn read_web_page(
    bytes: &[u8],
    encoding: Option<&str>,
    links: LinkAddress<'_>,
    limits: &Limits,
) -> Result<WebPage, Error> {
    let named = encoding.and_then(|label| Encoding::for_label(label.as_bytes()));
    let (text, _, _) = named.unwrap_or_else(|| html::encoding(bytes)).decode(bytes);
    let mut parts = Parts::new(limits);
    let title = html::read_text(&text, Some(links), &mut parts)?;
    let texts: Vec<String> = parts.finish().into_iter().map(|part| part.text).collect();
    Ok(WebPage { title: title.split_whitespace().collect::<Vec<_>>().join(" "), text: texts.join("\n\n") })
}

/// Returns a text in the encoding of this label, or else in UTF-8.
#[must_use]
pub fn decode(bytes: &[u8], encoding: Option<&str>) -> String {
    let named = encoding.and_then(|label| Encoding::for_label(label.as_bytes()));
    named.unwrap_or(UTF_8).decode(bytes).0.into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Pieces of pages, between which arbitrary text is put.
    const PIECES: [&str; 24] = [
        "<",
        ">",
        "</",
        "<!--",
        "-->",
        "<a href=",
        "<a href='x",
        "\"",
        "'",
        "=",
        "<script>",
        "</script>",
        "<head>",
        "</head>",
        "<title",
        "<pre>",
        "</pre>",
        "<li",
        "<td>",
        "&",
        "&#x1F600;",
        "&#99999999;",
        "é",
        "\u{a0}",
    ];

    fn pages() -> impl Strategy<Value = String> {
        let piece = prop_oneof![proptest::sample::select(&PIECES[..]).prop_map(str::to_owned), "\\PC{0,4}"];
        proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
    }

    /// Links of a page under `https://example.com/docs/`.
    fn address(target: &str) -> Option<String> {
        match target {
            fragment if fragment.starts_with('#') => None,
            target if target.starts_with("javascript:") => None,
            target => Some(format!("https://example.com/docs/{target}")),
        }
    }

    fn read(html: &str) -> WebPage {
        read_web_page(html.as_bytes(), None, &address, &Limits::default()).unwrap()
    }

    fn check(html: &str, expected: &str) {
        assert_eq!(read(html).text, expected, "{html}");
    }

    #[test]
    fn text_has_no_markup() {
        check("<p>Hello <b>wor</b>ld</p>", "Hello world");
        check("a<br>b<div>c</div>d", "a\nb\nc\nd");
        check("<script>if (a<b) {}</script>x<STYLE>p{}</STYLE>y<!-- <p>z -->", "xy");
        check("1 < 2 &amp;&amp; 3 &gt; 2 &#65;&#x42;&unknown; &", "1 < 2 && 3 > 2 AB&unknown; &");
        check("  many\n\n   spaces\t here ", "many spaces here");
        check("<p></p>", "");
    }

    #[test]
    fn structure_and_links_become_markdown() {
        check("<h2>Title</h2><p>One</p><p>Two</p>", "## Title\n\nOne\n\nTwo");
        check("<ul><li>a<li>b</ul>", "- a\n- b");
        check("<pre>a  b\n c</pre>", "a  b\n c");
        check(
            "See <a class=x href=\"b.html?x=1&amp;y=2\">the page</a>.",
            "See [the page](https://example.com/docs/b.html?x=1&y=2).",
        );
        check(
            "<p>a<a href=b> c</a>d<a href=e>f<a href=g>h",
            "a [c](https://example.com/docs/b)d[f](https://example.com/docs/e)[h](https://example.com/docs/g)",
        );
        check("<a href='#top'>Top</a><a href=\"javascript:alert(1)\">x</a><a href=c></a>", "Topx");
        check("<h1><a href=b>Next</a></h1>x", "# [Next](https://example.com/docs/b)\n\nx");
    }

    #[test]
    fn title_is_read_and_not_shown() {
        let html = "<html><head><meta x><TITLE>A &amp;\n B</TITLE><style>x</style></head><body>c</body>";
        assert_eq!(read(html), WebPage { title: "A & B".to_owned(), text: "c".to_owned() });
        let html = "<title>A</title><p>c<svg><title>Icon</title></svg>";
        assert_eq!(read(html), WebPage { title: "A".to_owned(), text: "c".to_owned() }, "without a head");
        assert_eq!(read(&format!("<title>{}", "é".repeat(1000))).title, "é".repeat(300));
    }

    #[test]
    fn label_of_the_response_precedes_that_of_the_page() {
        let page = b"<meta charset=utf-8>caf\xe9";
        let read = |label| read_web_page(page, label, &address, &Limits::default()).unwrap().text;
        assert_eq!((read(Some("iso-8859-1")), read(None)), ("café".to_owned(), "caf\u{fffd}".to_owned()));
        assert_eq!(
            (decode(b"\xc4\xe3", Some("gbk")), decode(b"a\xff", Some("none"))),
            ("你".to_owned(), "a\u{fffd}".to_owned())
        );
    }

    #[test]
    fn broken_pages_end() {
        for html in ["<", "<p", "</", "<!--", "<script>", "<a href='x>", "<head>", "&#x110000;", "<a href=", "<é>"] {
            read(html);
        }
        check(&("<div>".repeat(100_000) + "x"), "x");
        check(&("<head>".repeat(100_000) + "<body>x"), "x");
    }

    proptest! {
        #[test]
        fn page_of_any_text_ends_with_text(page in pages()) {
            let WebPage { title, text } = read(&page);
            // A link has its URL, and a block at most a few characters of Markdown, but nothing is repeated.
            prop_assert!(text.len() + title.len() <= page.len() * 32 + 64, "{page:?}");
        }
    }
}
