//! Parts that belong together are joined, and all others refused by name.

use super::*;
use crate::dtype::DType;
use crate::value::Value;
use crate::write::Writer;

/// A part: `split.no`, `split.count`, `split.tensors.count`, and the names of its tensors.
fn part(number: u16, count: u16, tensors: i32, names: &[&str]) -> Gguf {
    part_with(
        &[("split.no", number.into()), ("split.count", count.into()), ("split.tensors.count", tensors.into())],
        names,
    )
}

fn part_with(keys: &[(&str, Value)], names: &[&str]) -> Gguf {
    let mut writer = Writer::default();
    for (key, value) in keys {
        writer.set(*key, value.clone());
    }
    for name in names {
        writer.tensor(*name, DType::F32, &[2], vec![0; 8]).expect("the tensor is sound");
    }
    Gguf::parse(&writer.finish()).expect("a written file is read")
}

fn joined(parts: &[Gguf]) -> Result<Gguf, SplitError> {
    join((b'a'..).map(|letter| char::from(letter).to_string()).zip(parts.iter().cloned()).collect())
}

fn check(parts: &[Gguf], expected: &str) {
    let error = joined(parts).expect_err("these are not the parts of a model").to_string();
    assert_eq!(error, expected);
}

#[test]
fn join_makes_one_model_of_all_parts() {
    let parts = [part(0, 3, 4, &["x", "y"]), part(1, 3, 4, &[]), part(2, 3, 4, &["z", "w"])];
    let whole = joined(&parts).expect("they belong together");
    let table: Vec<_> = whole.tensors().iter().map(|tensor| (tensor.name.as_str(), tensor.part)).collect();
    assert_eq!(table, [("x", 0), ("y", 0), ("z", 2), ("w", 2)], "all tensors, in order, with their parts");
    assert_eq!(whole.tensor("w").map(|tensor| tensor.part), Some(2), "they are found by name");
    assert_eq!(whole.metadata(), parts[0].metadata(), "the first part has the metadata");
    let text = crate::describe::text(&whole, 1000);
    assert!(text.contains(&format!("8 bytes at {} of part 3", parts[2].data_offset)), "where tensors are: {text}");
}

#[test]
fn join_refuses_parts_of_other_models() {
    check(&[], "a model has at least one file");
    let first = || part(0, 2, 2, &["x"]);
    check(&[first(), part(0, 2, 2, &["y"])], "`b` is part 1 by its metadata key `split.no`, where part 2 belongs");
    check(&[part(1, 2, 2, &["x"])], "`a` is part 2 by its metadata key `split.no`, where part 1 belongs");
    let other = |rest: &str| format!("`b` belongs to another model than `a`: metadata key {rest}");
    check(&[first(), part(1, 3, 2, &["y"])], &other("`split.count` is 3, not 2"));
    check(&[first(), part(1, 2, 9, &["y"])], &other("`split.tensors.count` is 9, not 2"));
    check(&[first(), part(1, 2, 2, &["x"])], "tensor `x` is in `a` and in `b`");
    let three = "the parts hold 3 tensors together, and metadata key `split.tensors.count` is 2";
    check(&[first(), part(1, 2, 2, &["y", "z"])], three);
    check(
        &[first(), part_with(&[], &["y"])],
        "`b` is not a part of a split model: it has no metadata key `split.count`",
    );
    let keys = |architecture: &str, number: u16| -> Vec<(&'static str, Value)> {
        vec![("general.architecture", architecture.into()), ("split.no", number.into()), ("split.count", 2u16.into())]
    };
    let parts = [part_with(&keys("llama", 0), &["x"]), part_with(&keys("qwen3", 1), &["y"])];
    check(&parts, &other("`general.architecture` is \"qwen3\", not \"llama\""));
}

#[test]
fn split_keys_outside_their_range_are_refused() {
    let check = |keys: &[(&str, Value)], expected: Result<Option<u32>, &str>| {
        let number = Split::of("a", &part_with(keys, &[])).map(|split| split.map(|split| split.number));
        assert_eq!(number.map_err(|error| error.to_string()), expected.map_err(str::to_owned), "{keys:?}");
    };
    check(&[], Ok(None));
    check(&[("split.no", 0u16.into()), ("split.count", 1u16.into())], Ok(None));
    check(&[("split.no", 1u64.into()), ("split.count", 2u64.into())], Ok(Some(1)));
    check(&[("split.count", 2u16.into())], Err("`a`: metadata key `split.no` is missing"));
    let wrong = "`a`: metadata key `split.count`: expected u32, found string";
    check(&[("split.count", "2".into())], Err(wrong));
    let outside = "`a`: metadata key `split.no` is 2 and `split.count` 2; at most 512 parts are read";
    check(&[("split.no", 2u16.into()), ("split.count", 2u16.into())], Err(outside));
    let many = "`a`: metadata key `split.no` is 0 and `split.count` 65535; at most 512 parts are read";
    check(&[("split.no", 0u16.into()), ("split.count", 65_535u16.into())], Err(many));
}

#[test]
fn names_of_all_parts_follow_from_one() {
    let check = |file: &str, number: u32, expected: &[&str]| {
        let names = Split { number, count: 2, tensors: None }.names(file, |_| true).unwrap_or_default();
        assert_eq!(names, expected, "{file}, part {number}");
    };
    check("m-00001-of-00002.gguf", 0, &["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"]);
    check("m-x-00002-of-00002.gguf", 1, &["m-x-00001-of-00002.gguf", "m-x-00002-of-00002.gguf"]);
    for file in
        ["m.gguf", "m-00001-of-00002", "m-1-of-2.gguf", "m-00002-of-00002.gguf", "m-00001-of-00003.gguf", ".gguf"]
    {
        check(file, 0, &[]);
    }
    let refusal = |file: &str, exists: fn(&str) -> bool| {
        let names = Split { number: 0, count: 2, tensors: None }.names(file, exists);
        names.expect_err("the names of the parts cannot be given").to_string()
    };
    let expected = "`m.gguf` is part 1 of 2 of a model, and must be named like `model-00001-of-00002.gguf` for the others \
                    to be found";
    assert_eq!(refusal("m.gguf", |_| true), expected);
    let expected = "this model has 2 files, of which are missing: m-00002-of-00002.gguf";
    assert_eq!(refusal("m-00001-of-00002.gguf", |name| name.contains("00001-")), expected);
}
