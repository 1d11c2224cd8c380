//! Images that are made to exhaust memory or time, or that have false headers: each is decoded or refused within limits.
//!
//! `cargo test -p cairn-image --test hostile -- --nocapture` prints all of them as a table.

mod gif;
mod jpeg;
mod png;
mod webp;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use cairn_image::{Filter, decode};
use cairn_testkit::allocation::{CountingAllocator, peak_bytes};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// The most memory for an image: the decoder's, and the pixels in RGB.
const MOST_BYTES: usize = 700 << 20;
/// The most memory for an image of a few pixels, or one that is refused by its header. A color profile may have 32 MiB.
const HEADER_BYTES: usize = 100 << 20;
/// The most time. A decoder takes a second or two for the largest picture, and the machine may be busy.
const MOST_TIME: Duration = Duration::from_secs(60);

/// A file, and the end of its error; none if it is decoded.
struct Case {
    what: &'static str,
    file: Vec<u8>,
    error: Option<&'static str>,
    most_bytes: usize,
}

impl Case {
    /// A file that is decoded.
    fn decoded(what: &'static str, file: Vec<u8>) -> Self {
        Self { what, file, error: None, most_bytes: MOST_BYTES }
    }

    /// A file that is refused with this text, after some or all pixels were decoded.
    fn refused(what: &'static str, file: Vec<u8>, error: &'static str) -> Self {
        Self { what, file, error: Some(error), most_bytes: MOST_BYTES }
    }

    /// A file that is refused with this text before memory for pixels is allocated.
    fn refused_early(what: &'static str, file: Vec<u8>, error: &'static str) -> Self {
        Self { what, file, error: Some(error), most_bytes: HEADER_BYTES }
    }

    /// A file of a few pixels that is decoded with little memory.
    fn small(what: &'static str, file: Vec<u8>) -> Self {
        Self { what, file, error: None, most_bytes: HEADER_BYTES }
    }
}

/// Decodes a file, and returns the fault of the result, if there is one.
fn fault(case: &Case) -> Option<String> {
    let Case { what, file, error, most_bytes } = case;
    let began = Instant::now();
    let (decoded, bytes) = peak_bytes(|| {
        let picture = decode(file)?;
        // As for a vision tower.
        let scaled = picture.resize(336, 336, Filter::Cubic).expect("the size is not zero");
        Ok::<_, cairn_image::DecodeError>((picture.width(), picture.height(), scaled.rgb().len()))
    });
    let took = began.elapsed();
    let found = match &decoded {
        Ok((width, height, _)) => format!("decoded: {width} x {height} pixels"),
        Err(error) => error.to_string(),
    };
    println!("| {what} | {found} | {} | {bytes} | {} |", file.len(), took.as_millis());
    if decoded.is_ok() != error.is_none() || error.is_some_and(|error| !found.contains(error)) {
        return Some(format!("{what}: {found:?} instead of {:?}", error.unwrap_or("decoded")));
    }
    if bytes > *most_bytes {
        return Some(format!("{what}: {bytes} bytes were allocated, more than {most_bytes}"));
    }
    (took > MOST_TIME).then(|| format!("{what}: it took {took:?}"))
}

fn check_all(cases: &[Case]) {
    println!("| file | result | bytes of the file | most bytes allocated | ms |\n|---|---|---|---|---|");
    let faults: Vec<String> = cases.iter().filter_map(fault).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let names: HashSet<&str> = cases.iter().map(|case| case.what).collect();
    assert_eq!(names.len(), cases.len(), "each file is another");
}

#[test]
fn hostile_png_is_bounded() {
    check_all(&png::cases());
}

#[test]
fn hostile_jpeg_is_bounded() {
    check_all(&jpeg::cases());
}

#[test]
fn hostile_gif_is_bounded() {
    check_all(&gif::cases());
}

#[test]
fn hostile_webp_is_bounded() {
    check_all(&webp::cases());
}
