//! Files larger than 4 GiB, where a 32-bit offset would overflow. They are sparse and use little disk.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};

use cairn_gguf::{DType, Writer};

use super::*;

const GIB: u64 = 1 << 30;

/// Tensors in the order of the file: small tensors that are written completely, and sparse tensors that reach beyond 4
/// GiB.
const TENSORS: &[(&str, u64)] = &[
    ("first", 4096),
    ("up to 4 GiB", 4 * GIB - 4 * 4096),
    ("across 4 GiB", 8 * 4096),
    ("after 4 GiB", 4096),
    ("a hole", 5 * GIB + 32),
    ("after 9 GiB", 4096),
    ("another hole", 3 * GIB),
    ("last", 4096),
];
/// Of large tensors only this many bytes at each end are written and read.
const END_BYTES: u64 = 64;

/// Returns the byte at an offset. It differs from the byte 4 GiB before and from its neighbours.
fn byte(offset: u64) -> u8 {
    (offset ^ (offset >> 32).wrapping_mul(101)) as u8 | 1
}

/// Returns the written ranges of a tensor: both halves of a small one, else both ends.
fn written(offset: u64, bytes: u64) -> [std::ops::Range<u64>; 2] {
    let end_bytes = if bytes <= 8 * 4096 { bytes / 2 } else { END_BYTES };
    [offset..offset + end_bytes, offset + bytes - end_bytes..offset + bytes]
}

/// Writes the file, and checks that it uses little disk.
fn write(path: &Path) -> u64 {
    let mut writer = Writer::default();
    for (name, bytes) in TENSORS {
        writer.tensor_from(*name, DType::I8, &[*bytes], |_| Ok(())).expect("the tensor is valid");
    }
    let (head, len) = writer.head();
    let gguf = Gguf::parse_header(&head, len).expect("a written head is read");
    let mut file = File::create(path).expect("the file can be made");
    file.write_all(&head).and_then(|()| file.set_len(len)).expect("the file can be written");
    for tensor in gguf.tensors() {
        for range in written(tensor.offset, tensor.bytes) {
            file.seek(SeekFrom::Start(range.start)).expect("the file is that long");
            file.write_all(&range.map(byte).collect::<Vec<_>>()).expect("the file can be written");
        }
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let taken = file.metadata().expect("it is there").blocks() * 512;
        assert!(taken < 4 << 20, "{taken} bytes of disk are too many for a file of holes");
    }
    len
}

#[test]
fn tensors_beyond_4_gib_are_read_correctly() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("long.gguf");
    let len = write(&path);
    let file = ModelFile::open(&path).expect("the file is whole");
    assert_eq!(file.len_bytes(), len, "the whole file");
    assert!(len > 12 * GIB, "{len} bytes are not far beyond 4 GiB");
    let mut crossing = 0;
    for (tensor, (name, bytes)) in file.gguf().tensors().iter().zip(TENSORS) {
        assert_eq!((tensor.name.as_str(), tensor.bytes), (*name, *bytes), "the tensor table is unchanged");
        let read = file.tensor_bytes(tensor);
        assert_eq!(read.len() as u64, *bytes, "{name}: all its bytes");
        for range in written(tensor.offset, tensor.bytes) {
            for offset in range {
                let found = read[(offset - tensor.offset) as usize];
                assert_eq!(found, byte(offset), "{name}: the byte at {offset}");
            }
        }
        if tensor.bytes > 8 * 4096 {
            let middle = read[(tensor.bytes / 2) as usize..][..4096].iter();
            assert!(middle.copied().all(|byte| byte == 0), "{name}: a hole is zeros");
        }
        crossing += u64::from((tensor.offset..tensor.offset + tensor.bytes).contains(&(4 * GIB)));
        let mut row = vec![0.0; END_BYTES as usize];
        tensor.dtype.decode(&read[..row.len()], &mut row);
        let expected: Vec<f32> =
            (tensor.offset..).map(|offset| f32::from(byte(offset) as i8)).take(row.len()).collect();
        assert_eq!(row, expected, "{name}: its first elements");
    }
    assert_eq!(crossing, 1, "one tensor crosses 4 GiB");
    file.check().expect("no page is lost");
}

#[test]
fn truncated_file_beyond_4_gib_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("long.gguf");
    let len = write(&path);
    let file = File::options().write(true).open(&path).expect("it can be opened");
    for short in [len - 1, len - 4 * GIB, 4096] {
        file.set_len(short).expect("it can be cut");
        let error = ModelFile::open(&path).expect_err("tensors are missing").to_string();
        let is_reported = error.contains("tensor `") && error.ends_with(&format!("the file has {short} bytes"));
        assert!(is_reported, "cut to {short} bytes: {error}");
    }
}
