//! Tests of [`extract`] for each format, and for hostile files.

use cairn_testkit::documents::{docx, package, paragraph, pdf, pdf_of, pptx, xlsx};
use proptest::prelude::*;

use super::*;

fn parts(bytes: &[u8], extension: &str) -> Vec<(PartPlace, String)> {
    let extracted = extract(bytes, extension, &Limits::default()).expect("the document is valid");
    extracted.parts.into_iter().map(|part| (part.place, part.text)).collect()
}

fn error(bytes: &[u8], extension: &str, limits: &Limits) -> Error {
    extract(bytes, extension, limits).expect_err("the document is refused")
}

fn heading(text: &str) -> PartPlace {
    PartPlace::Heading { text: text.to_owned() }
}

#[test]
fn pdf_pages_are_parts() {
    let file = pdf(&["The first page\nhas (two) lines", "", "Page three"]);
    let expected = [
        (PartPlace::Page { number: 1 }, "The first page\nhas (two) lines".to_owned()),
        (PartPlace::Page { number: 3 }, "Page three".to_owned()),
    ];
    assert_eq!(parts(&file, "pdf"), expected);
    assert_eq!(extract(&file, "", &Limits::default()).map(|found| found.pages), Ok(Some(3)), "the empty page counts");
    assert_eq!(parts(&file, "txt"), expected, "contents decide, not the name");
}

/// Returns a PDF with one page of these contents.
fn page(content: &[u8], filter: &str, resources: &str, more: &[&str]) -> Vec<u8> {
    let head = format!("<< /Length {} {filter} >>\nstream\n", content.len());
    let objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>".to_vec(),
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>".to_vec(),
        format!("<< /Type /Page /Parent 2 0 R /Resources << {resources} >> /Contents 4 0 R >>").into_bytes(),
        [head.as_bytes(), content, b"\nendstream"].concat(),
    ];
    pdf_of(objects.into_iter().chain(more.iter().map(|object| object.as_bytes().to_vec())))
}

const FONT: &str = "/Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Courier /Encoding /WinAnsiEncoding \
                    /FirstChar 32 /Widths [600] >> >>";

#[test]
fn pdf_lines_follow_the_positions_of_strings() {
    let check = |content: &str, expected: &str| {
        let found = parts(&page(content.as_bytes(), "", FONT, &[]), "pdf");
        assert_eq!(found[0].1, expected, "{content}");
    };
    check("BT /F1 10 Tf 0 50 Td (one) Tj 0 -12 Td (two) Tj ET", "one\ntwo");
    check("BT /F1 10 Tf 0 50 Td (one) Tj 0 -40 Td (two) Tj ET", "one\n\ntwo");
    check("BT /F1 10 Tf [(w) 20 (or) -10 (d) -400 (next)] TJ ET", "word next");
    check("BT /F1 10 Tf 1 0 0 1 5 5 Tm (a) Tj 1 0 0 1 60 5 Tm (b) Tj ET", "a b");
    check("BT /F1 1 Tf 10 0 0 10 5 5 Tm (a) Tj 10 0 0 10 5 -10 Tm (b) Tj ET", "a\nb");
    check("q 2 0 0 2 0 0 cm BT /F1 10 Tf (a) Tj ET Q BT /F1 10 Tf 0 -90 Td (b) Tj ET", "a\n\nb");
    check("BT /F1 10 Tf 12 TL (a) Tj (b) ' 1 2 (c) \" ET", "a\nb\nc");
    check("BT /F1 10 Tf (before) Tj ET \x01 >> (damage", "before");
}

#[test]
fn pdf_forms_and_unicode_maps_are_read() {
    let map = "/CIDInit /ProcSet findresource begin begincmap 1 begincodespacerange <0000> <ffff> endcodespacerange \
               2 beginbfchar <0001> <6A21> <0002> <578B> endbfchar endcmap end";
    let map = format!("<< /Length {} >>\nstream\n{map}\nendstream", map.len());
    let font = "/Font << /F1 << /Type /Font /Subtype /Type0 /Encoding /Identity-H /ToUnicode 5 0 R >> >>";
    let found = parts(&page(b"BT /F1 10 Tf <00010002> Tj ET", "", font, &[&map]), "pdf");
    assert_eq!(found[0].1, "模型");

    let form = "BT /F1 10 Tf (inside) Tj ET /X1 Do";
    let resources = format!("/XObject << /X1 5 0 R >> {FONT}");
    let form = format!(
        "<< /Type /XObject /Subtype /Form /Resources << {resources} >> /Length {} >>\nstream\n{form}\nendstream",
        form.len()
    );
    let found = parts(&page(b"/X1 Do", "", &resources, &[&form]), "pdf");
    assert_eq!(found[0].1, "inside", "a form that contains itself is read once");
}

#[test]
fn pdf_without_text_names_the_cause() {
    let pictures = pdf(&["", ""]);
    let error = error(&pictures, "pdf", &Limits::default());
    assert_eq!(error, Error::NoTextLayer { pages: 2 });
    assert!(error.to_string().starts_with("the PDF has only pictures of its 2 pages"), "{error}");
}

#[test]
fn docx_is_divided_at_headings() {
    let body = [
        paragraph("", "Before &amp; first."),
        paragraph("Heading1", "Rules"),
        paragraph("", "Be kind."),
        "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>b</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"
            .to_owned(),
        "<w:p><w:del><w:r><w:delText>old</w:delText></w:r></w:del><w:r><w:t>new</w:t><w:instrText>PAGE</w:instrText></w:r></w:p>"
            .to_owned(),
    ];
    let expected = [
        (PartPlace::Whole, "Before & first.".to_owned()),
        (heading("Rules"), "# Rules\n\nBe kind.\n\na | b\n\nnew".to_owned()),
    ];
    assert_eq!(parts(&docx(&body.concat()), "docx"), expected);
}

#[test]
fn xlsx_rows_are_lines() {
    let rows = "<row r=\"1\"><c r=\"A1\" t=\"s\"><v>1</v></c><c r=\"B1\" t=\"s\"><v>0</v></c></row>\
                <row r=\"2\"><c r=\"A2\" s=\"1\"><v>45292</v></c><c r=\"D2\"><f>1+1</f><v>2</v></c></row>\
                <row r=\"3\"><c r=\"XFD3\" t=\"inlineStr\"><is><t>far</t></is></c><c t=\"s\"><v>99</v></c></row>";
    let expected = "Day\tSum\n2024-01-01\t\t\t2\n\tfar";
    let place = PartPlace::Sheet { name: "Figures".to_owned() };
    assert_eq!(parts(&xlsx(rows, &["Sum", "Day"]), "xlsx"), [(place, expected.to_owned())]);
}

#[test]
fn pptx_slides_are_parts_with_notes() {
    let file = pptx(&["Title\nPoint", "Second"], "Speak slowly");
    let expected = [
        (PartPlace::Slide { number: 1 }, "Title\nPoint\n\nNotes:\nSpeak slowly".to_owned()),
        (PartPlace::Slide { number: 2 }, "Second".to_owned()),
    ];
    assert_eq!(parts(&file, "pptx"), expected);
}

#[test]
fn html_has_its_visible_text() {
    let check = |html: &str, expected: &[(PartPlace, &str)]| {
        let expected: Vec<_> = expected.iter().map(|(place, text)| (place.clone(), (*text).to_owned())).collect();
        assert_eq!(parts(html.as_bytes(), "html"), expected, "{html}");
    };
    check(
        "<!doctype html><head><title>T</title><style>p{}</style><body><p>One &eacute;<b>two</b></p>\n\n<script>let a = '<p>';</script><h2>Next\n part</h2><ul><li>x<li>y</ul>",
        &[(PartPlace::Whole, "One étwo"), (heading("Next part"), "## Next part\n\n- x\n- y")],
    );
    check("<pre>a\n  b</pre><table><tr><td>1</td><td>2</td></tr></table>", &[(PartPlace::Whole, "a\n  b\n1\t2")]);
    check(
        "<p>shown<iframe><p>no</iframe><object>no<object>no</object>no</object> too",
        &[(PartPlace::Whole, "shown too")],
    );
    let latin = b"<meta charset=\"windows-1252\"><p>caf\xe9";
    assert_eq!(parts(latin, "html")[0].1, "café");
    let deep = "<div>".repeat(200_000) + "deep";
    check(&deep, &[(PartPlace::Whole, "deep")]);
}

#[test]
fn markdown_is_divided_at_headings_outside_of_code() {
    let text = "Intro\n\n# One #\ntext\n```sh\n# a comment\n```\n## Two\nmore\n#hashtag\n";
    let expected = [
        (PartPlace::Whole, "Intro".to_owned()),
        (heading("One"), "# One\n\ntext\n```sh\n# a comment\n```".to_owned()),
        (heading("Two"), "## Two\n\nmore\n#hashtag".to_owned()),
    ];
    assert_eq!(parts(text.as_bytes(), "md"), expected);
    assert_eq!(parts(text.as_bytes(), "txt").len(), 1, "a text file has no headings");
}

#[test]
fn texts_are_decoded_and_cleaned() {
    let check = |bytes: &[u8], expected: &str| assert_eq!(parts(bytes, "txt")[0].1, expected, "{bytes:?}");
    check(b"\xef\xbb\xbfa\r\nb  \r\n\r\n\r\n\r\nc", "a\nb\n\nc");
    check(b"\xff\xfea\0b\0", "ab");
    check("o\u{fb03}ce\u{ad}\u{202e} \u{1b}[31m".as_bytes(), "office [31m");
    check(b"\tindented\n\tcode", "\tindented\n\tcode");
}

#[test]
fn unknown_and_damaged_files_are_refused() {
    let check = |bytes: &[u8], extension: &str, expected: fn(&Error) -> bool| {
        let error = error(bytes, extension, &Limits::default());
        assert!(expected(&error), "{error:?}");
    };
    check(b"\0\x01binary", "bin", |error| *error == Error::UnknownFormat);
    check(b"latin \xe9", "txt", |error| *error == Error::UnknownFormat);
    check(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 word", "doc", |error| *error == Error::OldOffice);
    check(b"%PDF-1.7 and nothing", "pdf", |error| matches!(error, Error::Damaged { .. }));
    check(b"PK\x03\x04 and nothing", "docx", |error| matches!(error, Error::Damaged { .. }));
    check(&package([("a.txt", b"text".to_vec())]), "zip", |error| *error == Error::UnknownFormat);
    check(&docx("<w:p><w:r><w:t>open"), "docx", |error| matches!(error, Error::Damaged { .. }));
    check(b" \n ", "txt", |error| *error == Error::NoText);
    check(&docx(""), "docx", |error| *error == Error::NoText);
}

#[test]
fn limits_refuse_bombs() {
    let small = Limits { inflated_bytes: 100_000, chars: 1000, parts: 3, depth: 50, entries: 10, ..Limits::default() };
    let is_inflated = Error::InflatesTooMuch { limit_bytes: 100_000 };
    let spaces = format!("<w:p><w:r><w:t>{}</w:t></w:r></w:p>", " ".repeat(200_000));
    assert_eq!(error(&docx(&spaces), "docx", &small), is_inflated, "a DOCX");
    let zeros = zlib(&vec![b' '; 200_000]);
    assert_eq!(error(&page(&zeros, "/Filter /FlateDecode", FONT, &[]), "pdf", &small), is_inflated, "a page");
    let twice = zlib(&zlib(&vec![b' '; 30_000_000]));
    let filters = "/Filter [/FlateDecode /FlateDecode]";
    assert_eq!(error(&page(&twice, filters, FONT, &[]), "pdf", &small), is_inflated, "two filters");
    let form = format!("<< /Subtype /Form /Length 40001 >>\nstream\n{} \nendstream", "%\n".repeat(20_000));
    let repeated = page("/X1 Do ".repeat(100).as_bytes(), "", "/XObject << /X1 5 0 R >>", &[&form]);
    assert_eq!(error(&repeated, "pdf", &small), is_inflated, "a form that is repeated");

    let deep = "<w:sdt>".repeat(60) + &"</w:sdt>".repeat(60);
    assert_eq!(error(&docx(&deep), "docx", &small), Error::too_many("elements inside each other", 50));
    let long = "x".repeat(4001);
    assert_eq!(error(long.as_bytes(), "txt", &small), Error::too_many("characters", 1000));
    assert_eq!(error(&pdf(&["a", "b", "c", "d"]), "pdf", &small), Error::too_many("pages", 3));
    assert_eq!(error("# a\n".repeat(4).as_bytes(), "md", &small), Error::too_many("parts", 3));
    let names: Vec<String> = (0..12).map(|at| format!("{at}")).collect();
    let many = names.iter().map(|name| (name.as_str(), Vec::new())).chain([("word/document.xml", b"<a/>".to_vec())]);
    assert_eq!(error(&package(many), "docx", &small), Error::too_many("files inside", 10));
    let tiny = Limits { file_bytes: 3, ..small };
    assert_eq!(error(b"long", "txt", &tiny), Error::FileTooLarge { limit_bytes: 3 });
    // XML's own entities are the only ones that are expanded.
    let laughs =
        "<!DOCTYPE a [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;\">]><a><w:p><w:t>x&b;&lt;</w:t></w:p></a>";
    let file = package([("word/document.xml", laughs.as_bytes().to_vec())]);
    assert_eq!(parts(&file, "docx")[0].1, "x<");
}

#[test]
fn external_targets_are_ignored() {
    let main = "<p:presentation xmlns:p=\"p\" xmlns:r=\"r\"><p:sldIdLst><p:sldId r:id=\"a\"/><p:sldId r:id=\"b\"/>\
                <p:sldId r:id=\"c\"/></p:sldIdLst></p:presentation>";
    let links = "<Relationships><Relationship Id=\"a\" Type=\"t/slide\" TargetMode=\"External\" Target=\"slides/s.xml\"/>\
                 <Relationship Id=\"b\" Type=\"t/slide\" Target=\"../../../../etc/passwd\"/>\
                 <Relationship Id=\"c\" Type=\"t/slide\" Target=\"/ppt/slides/../slides/s.xml\"/></Relationships>";
    let slide = "<p:sld xmlns:a=\"a\" xmlns:p=\"p\"><a:p><a:t>inside</a:t></a:p></p:sld>";
    let file = package([
        ("ppt/presentation.xml", main.into()),
        ("ppt/_rels/presentation.xml.rels", links.into()),
        ("ppt/slides/s.xml", slide.into()),
    ]);
    assert_eq!(parts(&file, "pptx"), [(PartPlace::Slide { number: 2 }, "inside".to_owned())]);
}

#[test]
fn ten_thousand_pages_are_read() {
    let texts: Vec<String> = (1..=10_000).map(|page| format!("Text of page {page}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let found = parts(&pdf(&texts), "pdf");
    assert_eq!(found.len(), 10_000);
    assert_eq!(found[9_999], (PartPlace::Page { number: 10_000 }, "Text of page 10000".to_owned()));
}

/// Compresses bytes as PDF's `FlateDecode` expects.
fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut stream = lopdf::Stream::new(lopdf::Dictionary::new(), bytes.to_vec());
    stream.compress().expect("bytes can be compressed");
    stream.content
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn changed_bytes_never_panic(at in 0_usize..2000, byte in any::<u8>(), cut in 0_usize..4000, which in 0_usize..4) {
        let mut file = match which {
            0 => pdf(&["some text", "more"]),
            1 => docx(&paragraph("Heading1", "text")),
            2 => xlsx("<row><c r=\"A1\" t=\"s\"><v>0</v></c></row>", &["text"]),
            _ => pptx(&["text"], "notes"),
        };
        let length = file.len();
        file[at % length] = byte;
        file.truncate(cut.max(length / 2));
        let _ = extract(&file, "pdf", &Limits::default());
    }
}
