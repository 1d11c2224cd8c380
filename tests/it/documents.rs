//! Documents end to end: the daemon reads them in a process of its own, and hostile ones change nothing.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use cairn_testkit::documents::{docx, package, paragraph, pdf, pdf_of};
use serde_json::Value;

use crate::cairn::{Daemon, Home, status_and_body, text};

/// Sends a document and returns status and body of the response.
fn send(home: &Home, name: &str, bytes: &[u8], length: u64) -> (u16, Value) {
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", home.port)).expect("the daemon accepts connections");
    let bearer = home.bearer().expect("the daemon has a token");
    let head = format!(
        "POST /app/documents?name={name} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\nAuthorization: {bearer}\r\n\
         Content-Length: {length}\r\n\r\n",
        home.port
    );
    stream.write_all(head.as_bytes()).expect("the daemon reads the request");
    // The daemon may refuse the request before it has the whole body.
    let _ = stream.write_all(bytes);
    let (mut response, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    // The daemon may keep the connection open to discard the rest of a body.
    while !is_complete(&response) {
        match stream.read(&mut buffer).expect("the daemon responds") {
            0 => break,
            count => response.extend_from_slice(&buffer[..count]),
        }
    }
    let (status, body) = status_and_body(&text(&response)).expect("the response is complete");
    (status, serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}")))
}

/// Whether a response has all bytes of its `Content-Length`.
fn is_complete(response: &[u8]) -> bool {
    let response = text(response);
    let Some((head, body)) = response.split_once("\r\n\r\n") else { return false };
    let head = head.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    length.is_some_and(|length| body.len() >= length)
}

fn read(home: &Home, name: &str, bytes: &[u8]) -> (u16, Value) {
    send(home, name, bytes, bytes.len() as u64)
}

fn refused(home: &Home, name: &str, bytes: &[u8], code: &str) {
    let (status, body) = read(home, name, bytes);
    assert!(status == 400 && body["code"] == code, "{name}: {status} {body}");
}

#[test]
fn documents_are_read_by_a_process() {
    let home = Home::new();
    let _daemon: Daemon<'_> = home.serve();
    let (status, body) = read(&home, "a.pdf", &pdf(&["First", "Second"]));
    assert_eq!((status, &body["format"], &body["pages"], &body["chars"]), (200, &"pdf".into(), &2.into(), &11.into()));
    assert_eq!(body["parts"][1], serde_json::json!({"place": {"kind": "page", "number": 2}, "text": "Second"}));
    let (status, body) = read(&home, "b.docx", &docx(&paragraph("Heading1", "Rules")));
    assert_eq!((status, &body["parts"][0]["place"]["text"]), (200, &"Rules".into()), "{body}");
    let (status, body) = read(&home, "notes.md", "# 一\n文字".as_bytes());
    assert_eq!((status, &body["format"]), (200, &"markdown".into()), "the extension reaches the process: {body}");
}

#[test]
fn hostile_documents_change_nothing() {
    // A server that no document may reach.
    let trap = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    trap.set_nonblocking(true).expect("the socket can be changed");
    let url = format!("http://{}/x", trap.local_addr().expect("the socket has an address"));
    let home = Home::new();
    let daemon = home.serve();

    let bomb = package([("word/document.xml", vec![b' '; 520 << 20])]);
    assert!(bomb.len() < 4 << 20, "{} bytes inflate to 520 MiB", bomb.len());
    refused(&home, "bomb.docx", &bomb, "document_inflates");
    refused(&home, "scan.pdf", &pdf(&["", ""]), "document_has_no_text_layer");
    refused(&home, "damaged.pdf", b"%PDF-1.7 damaged", "document_damaged");
    refused(&home, "old.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "document_old_office");
    // A tree of pages that contains itself.
    let ring = ["<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 9 >>"];
    let (status, _) = read(&home, "ring.pdf", &pdf_of(ring.map(|object| object.as_bytes().to_vec())));
    assert_eq!(status, 400, "a tree of pages that contains itself");

    let (status, body) = send(&home, "huge.pdf", b"%PDF-1.7", 2 << 30);
    assert_eq!((status, &body["code"]), (413, &"body_too_large".into()), "2 GB are refused before they are sent");

    let link = format!(
        "<Relationships><Relationship Id=\"rId1\" Type=\"x/attachedTemplate\" Target=\"{url}\" TargetMode=\"External\"/></Relationships>"
    );
    let body = format!(
        "<!DOCTYPE d [<!ENTITY e SYSTEM \"{url}\"><!ENTITY f SYSTEM \"file:///etc/passwd\">]><w:document xmlns:w=\"w\">{}</w:document>",
        paragraph("", "safe &e;&f;")
    );
    let linked =
        package([("word/document.xml", body.into_bytes()), ("word/_rels/document.xml.rels", link.into_bytes())]);
    let (status, body) = read(&home, "linked.docx", &linked);
    assert_eq!((status, &body["parts"][0]["text"]), (200, &"safe".into()), "{body}");
    let page =
        format!("<p>safe</p><img src=\"{url}\"><link rel=stylesheet href=\"{url}\"><script src=\"{url}\"></script>");
    let (status, body) = read(&home, "page.html", page.as_bytes());
    assert_eq!((status, &body["parts"][0]["text"]), (200, &"safe".into()), "{body}");
    assert!(trap.accept().is_err(), "nothing was reached");

    let pages: Vec<String> = (1..=10_000).map(|page| format!("Page {page}")).collect();
    let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
    let (status, body) = read(&home, "long.pdf", &pdf(&pages));
    assert_eq!((status, &body["pages"]), (200, &10_000.into()), "10,000 pages are read");
    assert_eq!(body["parts"].as_array().map(Vec::len), Some(10_000), "no page is lost");
    assert!(daemon.get("/api/version").is_some(), "the daemon runs: {}", daemon.log());
}

#[cfg(target_os = "linux")]
#[test]
fn reading_process_limits_itself() {
    let home = Home::new();
    let mut child = home
        .command(&["extract-document", "--extension", "txt"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("cairn starts");
    let mut input = child.stdin.take().expect("the stream is piped");
    // The process limits itself before it reads: a pipe holds 64 KiB, so the rest is written after that.
    input.write_all(&vec![b'x'; 1 << 20]).expect("the process reads its input");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", child.id())).expect("the process runs");
    for (name, limit) in [
        ("Max cpu time", "60"),
        ("Max file size", "0"),
        ("Max open files", "0"),
        ("Max address space", "3221225472"),
        ("Max core file size", "0"),
    ] {
        let line = limits.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {limits}"));
        let values: Vec<&str> = line[name.len()..].split_whitespace().take(2).collect();
        assert_eq!(values, [limit, limit], "{name}");
    }
    drop(input);
    let output = child.wait_with_output().expect("the process ends");
    let last = String::from_utf8(output.stdout).expect("the output is text");
    assert!(last.trim_end().ends_with(r#"{"done":{"format":"text","pages":null}}"#), "{:.200}", last);
}
