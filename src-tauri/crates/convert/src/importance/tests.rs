//! Both kinds of files, and files that are refused.

use cairn_gguf::{DType, Writer};

use super::*;

fn number(number: i32) -> [u8; 4] {
    number.to_le_bytes()
}

/// An older file with one entry.
fn dat(name: &str, calls: i32, values: &[f32]) -> Vec<u8> {
    let mut file = [number(1), number(name.len() as i32)].concat();
    file.extend(name.as_bytes());
    file.extend([number(calls), number(values.len() as i32)].concat());
    file.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    file
}

/// A newer file with one entry, of as many matrices as there are counts.
fn sums(kind: &str, values: &[f32], counts: &[f32]) -> Vec<u8> {
    let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let mut writer = Writer::default();
    writer.set("general.type", kind);
    let columns = (values.len() / counts.len()) as u64;
    writer.tensor("w.in_sum2", DType::F32, &[columns, counts.len() as u64], bytes(values)).expect("valid tensor");
    writer.tensor("w.counts", DType::F32, &[1, counts.len() as u64], bytes(counts)).expect("valid tensor");
    writer.finish()
}

#[test]
fn older_file_has_sums_divided_by_calls() {
    let mut file = dat("blk.0.attn_q.weight", 4, &[2.0, 8.0]);
    let importance = Importance::parse(&file).expect("valid without the last fields");
    assert_eq!(importance.entries["blk.0.attn_q.weight"], [0.5, 2.0]);
    file.extend([number(7), number(4)].concat());
    file.extend(b"wiki");
    let importance = Importance::parse(&file).expect("valid");
    assert_eq!((importance.chunks, importance.datasets.as_slice()), (7, &["wiki".to_owned()][..]), "last fields");
    let without_calls = Importance::parse(&dat("w", 0, &[2.0])).expect("valid");
    assert_eq!(without_calls.entries["w"], [2.0], "nothing to divide by");
}

#[test]
fn newer_file_has_sums_and_counts_of_each_matrix() {
    let importance = Importance::parse(&sums("imatrix", &[2.0, 4.0, 5.0, 6.0], &[2.0, 0.0])).expect("valid");
    assert_eq!(importance.entries["w"], [1.0, 2.0, 1.0, 1.0], "a matrix without inputs is even");
}

#[test]
fn written_sums_are_parsed_back() {
    let mut sums = ActivationSums::default();
    for input in [[1.0, 2.0], [3.0, 0.0]] {
        sums.add("a", 0, 1, &input);
    }
    sums.add("b", 1, 2, &[3.0]);
    let mut file = Vec::new();
    sums.write_to("text.txt", 3, 512, &mut file).expect("write succeeds");
    let importance = Importance::parse(&file).expect("valid");
    assert_eq!(importance.entries["a"], [5.0, 2.0]);
    assert_eq!(importance.entries["b"], [1.0, 9.0]);
    assert_eq!((importance.chunks, importance.datasets), (3, vec!["text.txt".to_owned()]));
}

#[test]
fn invalid_files_are_refused_with_the_reason() {
    let check = |file: &[u8], expected: &str| {
        let error = Importance::parse(file).expect_err("refused").to_string();
        assert!(error.contains(expected), "{error:?} has {expected:?}");
    };
    check(b"", "the number of entries needs 4 bytes, and 0 are left");
    check(&number(0), "the number of entries is 0, but must be from 1 to 65536");
    check(&number(-1), "the number of entries is -1");
    check(&[number(1), number(5000)].concat(), "the length of the name of entry 1 is 5000");
    check(&dat("w", 1, &[1.0])[..17], "entry 1 needs 4 bytes, and 0 are left");
    check(&dat("w", 1, &[]), "the number of values of entry 1 is 0");
    check(&dat("w", 1, &[f32::NAN]), "`w` that is negative or not finite");
    check(&dat("w", 1, &[-1.0]), "`w` that is negative or not finite");
    let twice = [&number(2)[..], &dat("w", 1, &[1.0])[4..], &dat("w", 1, &[1.0])[4..]].concat();
    check(&twice, "it has two entries `w`");
    let mut huge = dat("w", 1, &[1.0]);
    huge[13..17].copy_from_slice(&number(i32::MAX));
    check(&huge, "entry 1 needs 8589934588 bytes, and 4 are left");
    check(&sums("model", &[1.0], &[1.0]), "its general.type is not \"imatrix\"");
    check(&sums("imatrix", &[1.0], &[f32::NAN]), "`w` that is negative or not finite");
    check(&sums("imatrix", &[-1.0], &[1.0]), "`w` that is negative or not finite");
    let mut writer = Writer::default();
    writer.set("general.type", "imatrix");
    check(&writer.finish(), "it has no tensor with a name that ends with `.in_sum2`");
    writer.tensor("w.in_sum2", DType::F32, &[1], vec![0; 4]).expect("valid tensor");
    check(&writer.finish(), "the tensor `w.counts` is missing");
    writer.tensor("w.counts", DType::F16, &[1], vec![0; 2]).expect("valid tensor");
    check(&writer.finish(), "`w.counts` is F16, not F32");
    let mut writer = Writer::default();
    writer.set("general.type", "imatrix");
    writer.tensor("w.in_sum2", DType::F32, &[2], vec![0; 8]).expect("valid tensor");
    writer.tensor("w.counts", DType::F32, &[2], vec![0; 8]).expect("valid tensor");
    check(&writer.finish(), "`w` has 2 values for 2 counts");
}

#[test]
fn entries_are_checked_against_the_model() {
    let mut writer = Writer::default();
    writer.tensor("blk.0.up.weight", DType::F32, &[2, 1, 3], vec![0; 24]).expect("valid tensor");
    let head = Gguf::parse(&writer.finish()).expect("valid GGUF");
    let check = |name: &str, count: usize, expected: &str| {
        let importance = Importance::parse(&dat(name, 1, &vec![1.0; count])).expect("valid file");
        let error = importance.check(&head).expect_err("refused").to_string();
        assert!(error.starts_with(expected), "{error:?} starts with {expected:?}");
    };
    check(
        "blk.1.up.weight",
        6,
        "the importance matrix has an entry `blk.1.up.weight`, but the model has no such tensor",
    );
    check("output.weight", 6, "the importance matrix has no entry for a tensor of this model");
    check(
        "blk.0.up.weight",
        2,
        "the importance matrix has 2 numbers for `blk.0.up.weight`, but the tensor has 6 columns",
    );
    let importance = Importance::parse(&dat("blk.0.up.weight", 1, &[1.0; 6])).expect("valid file");
    assert_eq!(importance.check(&head), Ok(()));
}

proptest::proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(mut bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200), small in 0..4i32) {
        let _ = Importance::parse(&bytes);
        if let Some(start) = bytes.first_chunk_mut() {
            *start = number(small);
        }
        let _ = Importance::parse(&bytes);
    }
}
