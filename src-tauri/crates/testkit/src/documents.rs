//! Documents with given text, written byte by byte: PDF, and Office packages.

use std::io::{Cursor, Write};

use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// Returns a PDF. Each page has one line of text for each line of its text.
#[must_use]
pub fn pdf(pages: &[&str]) -> Vec<u8> {
    let mut objects = vec![String::from("<< /Type /Catalog /Pages 2 0 R >>"), String::new()];
    objects.push("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>".to_owned());
    let mut kids = String::new();
    for page in pages {
        let mut content = String::from("BT /F1 12 Tf 14 TL 72 720 Td\n");
        for line in page.lines() {
            let line: String =
                line.chars().flat_map(|c| "\\()".contains(c).then_some('\\').into_iter().chain([c])).collect();
            content += &format!("({line}) Tj T*\n");
        }
        content += "ET";
        let at = objects.len() + 1;
        kids += &format!("{at} 0 R ");
        objects.push(format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> /Contents {} 0 R >>",
            at + 1
        ));
        objects.push(format!("<< /Length {} >>\nstream\n{content}\nendstream", content.len()));
    }
    objects[1] = format!("<< /Type /Pages /Kids [{kids}] /Count {} >>", pages.len());
    pdf_of(objects.iter().map(|object| object.clone().into_bytes()))
}

/// Returns a PDF of objects, the first of which is the catalog.
#[must_use]
pub fn pdf_of(objects: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut file = b"%PDF-1.7\n".to_vec();
    let mut places = Vec::new();
    for (number, object) in (1..).zip(objects) {
        places.push(file.len());
        file.extend_from_slice(format!("{number} 0 obj\n").as_bytes());
        file.extend_from_slice(&object);
        file.extend_from_slice(b"\nendobj\n");
    }
    let table = file.len();
    file.extend_from_slice(format!("xref\n0 {}\n0000000000 65535 f \n", places.len() + 1).as_bytes());
    for place in &places {
        file.extend_from_slice(format!("{place:010} 00000 n \n").as_bytes());
    }
    let trailer = format!("trailer\n<< /Size {} /Root 1 0 R >>\nstartxref\n{table}\n%%EOF\n", places.len() + 1);
    file.extend_from_slice(trailer.as_bytes());
    file
}

/// Returns a ZIP archive of compressed entries.
///
/// # Panics
/// If two entries have the same name.
#[must_use]
pub fn package<'a>(entries: impl IntoIterator<Item = (&'a str, Vec<u8>)>) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, contents) in entries {
        zip.start_file(name, SimpleFileOptions::default()).expect("the name is unique");
        zip.write_all(&contents).expect("the archive is in memory");
    }
    zip.finish().expect("the archive is in memory").into_inner()
}

/// Returns a DOCX with this XML as its body.
#[must_use]
pub fn docx(body: &str) -> Vec<u8> {
    let document = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><w:document \
         xmlns:w=\"http://schemas.openxmlformats.org/wordprocessingml/2006/main\"><w:body>{body}</w:body></w:document>"
    );
    let styles = "<w:styles xmlns:w=\"http://schemas.openxmlformats.org/wordprocessingml/2006/main\">\
                  <w:style w:styleId=\"Heading1\"><w:name w:val=\"heading 1\"/></w:style></w:styles>";
    package([("word/document.xml", document.into_bytes()), ("word/styles.xml", styles.into())])
}

/// Returns a paragraph of a DOCX; with `Heading1` as its style, or none.
#[must_use]
pub fn paragraph(style: &str, text: &str) -> String {
    let style = if style.is_empty() { String::new() } else { format!("<w:pPr><w:pStyle w:val=\"{style}\"/></w:pPr>") };
    format!("<w:p>{style}<w:r><w:t>{text}</w:t></w:r></w:p>")
}

/// Returns an XLSX with one sheet, `Figures`, of this XML.
#[must_use]
pub fn xlsx(rows: &str, strings: &[&str]) -> Vec<u8> {
    let workbook = "<workbook xmlns:r=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships\">\
                    <sheets><sheet name=\"Figures\" sheetId=\"1\" r:id=\"rId1\"/></sheets></workbook>";
    let links = "<Relationships><Relationship Id=\"rId1\" Type=\"http://x/worksheet\" Target=\"worksheets/sheet1.xml\"/>\
                 </Relationships>";
    let strings: String = strings.iter().map(|text| format!("<si><t>{text}</t></si>")).collect();
    let styles = "<styleSheet><cellXfs><xf numFmtId=\"0\"/><xf numFmtId=\"14\"/></cellXfs></styleSheet>";
    package([
        ("xl/workbook.xml", workbook.into()),
        ("xl/_rels/workbook.xml.rels", links.into()),
        ("xl/sharedStrings.xml", format!("<sst>{strings}</sst>").into_bytes()),
        ("xl/styles.xml", styles.into()),
        ("xl/worksheets/sheet1.xml", format!("<worksheet><sheetData>{rows}</sheetData></worksheet>").into_bytes()),
    ])
}

/// Returns a PPTX with one slide for each text, and notes for the first.
#[must_use]
pub fn pptx(slides: &[&str], notes: &str) -> Vec<u8> {
    let text = |text: &str| {
        let paragraphs: String = text.lines().map(|line| format!("<a:p><a:r><a:t>{line}</a:t></a:r></a:p>")).collect();
        format!("<p:sld xmlns:a=\"a\" xmlns:p=\"p\"><p:sp>{paragraphs}</p:sp></p:sld>").into_bytes()
    };
    let ids: String = (1..=slides.len()).map(|at| format!("<p:sldId id=\"{at}\" r:id=\"rId{at}\"/>")).collect();
    let links: String = (1..=slides.len())
        .map(|at| format!("<Relationship Id=\"rId{at}\" Type=\"http://x/slide\" Target=\"slides/slide{at}.xml\"/>"))
        .collect();
    let main = format!("<p:presentation xmlns:p=\"p\" xmlns:r=\"r\"><p:sldIdLst>{ids}</p:sldIdLst></p:presentation>");
    let names: Vec<String> = (1..=slides.len()).map(|at| format!("ppt/slides/slide{at}.xml")).collect();
    let noted = "<Relationships><Relationship Id=\"rId1\" Type=\"http://x/notesSlide\" Target=\"../notesSlides/n.xml\"/>\
                 </Relationships>";
    let fixed = [
        ("ppt/presentation.xml", main.into_bytes()),
        ("ppt/_rels/presentation.xml.rels", format!("<Relationships>{links}</Relationships>").into_bytes()),
        ("ppt/slides/_rels/slide1.xml.rels", noted.into()),
        ("ppt/notesSlides/n.xml", text(notes)),
    ];
    package(fixed.into_iter().chain(names.iter().map(String::as_str).zip(slides.iter().map(|slide| text(slide)))))
}
