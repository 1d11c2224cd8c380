//! Reading takes memory in proportion to a file's head, whatever the file says, and never more than a bound.
#![expect(unsafe_code, reason = "an allocator that counts is the only way to see what is allocated")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use cairn_gguf::reader::MAX_HEAD_BYTES;
use cairn_gguf::{Array, DType, Error, Gguf, Value, Writer};

/// The system's allocator, which counts the bytes that are taken, now and at most.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator as it came, and its answer back.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller keeps the same contract with us.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the same contract with us.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Parses, and says how many bytes were allocated at most at one time.
fn parse(bytes: &[u8]) -> (Result<Gguf, Error>, usize) {
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let parsed = Gguf::parse(bytes);
    (parsed, MOST.load(Ordering::Relaxed) - before)
}

/// The head of a file with one entry: an array of `count` elements of a type, which are zeros.
fn zeros(version: u32, kind: u32, count: u64, len: usize) -> Vec<u8> {
    let mut head = b"GGUF".to_vec();
    head.extend(version.to_le_bytes());
    let length =
        |value: u64| if version == 1 { (value as u32).to_le_bytes().to_vec() } else { value.to_le_bytes().to_vec() };
    for field in [length(0), length(1), length(1), b"k".to_vec(), 9u32.to_le_bytes().to_vec()] {
        head.extend(field);
    }
    head.extend(kind.to_le_bytes());
    head.extend(length(count));
    // Fresh zeros from the system take no memory until they are read, as in a sparse file.
    let mut bytes = vec![0; len];
    bytes[..head.len()].copy_from_slice(&head);
    bytes
}

/// One test, since the counters are the process's.
#[test]
fn memory_is_bounded() {
    // The densest heads: lists of empty texts and of empty lists of u8.
    for (version, kind, least_bytes) in [(1, 8, 4), (3, 8, 8), (1, 9, 8), (3, 9, 12)] {
        let len = 1 << 20;
        let (parsed, most) = parse(&zeros(version, kind, len as u64 / least_bytes - 10, len));
        assert!(most < 16 * len, "version {version}, type {kind}: {most} bytes for {len}");
        assert!(parsed.is_ok(), "version {version}, type {kind}: {parsed:?}");
        let len = 4 * MAX_HEAD_BYTES;
        let (parsed, most) = parse(&zeros(version, kind, len as u64 / least_bytes - 10, len));
        assert_eq!(parsed, Err(Error::LongHead { limit: MAX_HEAD_BYTES }), "version {version}, type {kind}");
        assert!(most < MAX_HEAD_BYTES, "version {version}, type {kind}: {most} bytes for a file that is refused");
    }

    let mut writer = Writer::default();
    writer.set("a", "text").set("b", Value::Array(Array::String(vec!["x".to_owned(); 40])));
    writer.set("c", Value::Array(Array::Array(vec![Array::U8(vec![1; 5]); 7])));
    for name in ["t", "u"] {
        writer.tensor(name, DType::F32, &[8, 2], vec![0; 64]).expect("the tensor is sound");
    }
    let whole = writer.finish();
    for at in 0..whole.len() {
        for value in [0, 1, 9, 0x7F, 0xFF] {
            let mut mutated = whole.clone();
            mutated[at] = value;
            let (_, most) = parse(&mutated);
            assert!(most < 64 * whole.len(), "byte {at} as {value}: {most} bytes for {}", whole.len());
        }
    }
}
