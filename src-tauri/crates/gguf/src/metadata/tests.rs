//! Typed lookups return the requested type, or an error that names the stored type.

use super::*;

fn sample() -> Metadata {
    let mut metadata = Metadata::new();
    metadata.set("u8", 7u8);
    metadata.set("i64", -1i64);
    metadata.set("u64", u64::MAX);
    metadata.set("f32", 0.5f32);
    metadata.set("f64", 0.25f64);
    metadata.set("flag", true);
    metadata.set("text", "pebble");
    metadata.set("texts", vec!["a".to_owned(), "b".to_owned()]);
    metadata.set("wide", vec![1i64, -2, 1 << 40]);
    metadata.set("small", vec![1u16, 2]);
    metadata.set("floats", vec![1.5f32]);
    metadata
}

#[test]
fn integer_lookup_accepts_any_width_that_fits() {
    let metadata = sample();
    assert_eq!(metadata.u32("u8"), Ok(Some(7)), "a narrower integer fits");
    assert_eq!(metadata.i32("i64"), Ok(Some(-1)), "a wider one with a small value fits");
    assert_eq!(metadata.u64("u64"), Ok(Some(u64::MAX)), "the largest one is itself");
    assert_eq!(metadata.i32s("small"), Ok(Some(vec![1, 2])), "arrays convert alike");
    assert_eq!(metadata.f32("f64"), Ok(Some(0.25)), "a double is rounded");
    assert_eq!(metadata.u32("absent"), Ok(None), "a missing key is no error");
}

#[test]
fn lookup_of_other_types_requires_the_same_type() {
    let metadata = sample();
    assert_eq!(metadata.bool("flag"), Ok(Some(true)), "a boolean");
    assert_eq!(metadata.required_str("text"), Ok("pebble"), "a text");
    assert_eq!(metadata.required_strings("texts").map(Strings::len), Ok(2), "texts");
    assert_eq!(metadata.required_f32s("floats"), Ok([1.5].as_slice()), "floats");
}

#[test]
fn errors_name_key_and_types() {
    let metadata = sample();
    let check = |result: Result<(), Error>, expected: &str| {
        assert_eq!(result.expect_err("this question has no answer").to_string(), expected);
    };
    check(metadata.u32("text").map(drop), "metadata key `text`: expected u32, found string");
    check(metadata.str("texts").map(drop), "metadata key `texts`: expected string, found array of string");
    check(metadata.f32s("small").map(drop), "metadata key `small`: expected array of f32, found array of u16");
    check(metadata.f32("u8").map(drop), "metadata key `u8`: expected f32, found u8");
    check(metadata.u32("i64").map(drop), "metadata key `i64`: -1 (i64) does not fit into u32");
    let text = "metadata key `wide`: 1099511627776 (array of i64) does not fit into array of i32";
    check(metadata.i32s("wide").map(drop), text);
    check(metadata.required_u32("absent").map(drop), "metadata key `absent` is missing");
}

#[test]
fn setting_an_existing_key_keeps_its_position() {
    let mut metadata = sample();
    assert_eq!(metadata.set("u8", "now a text"), Some(Value::U8(7)), "the earlier value is returned");
    assert_eq!(metadata.iter().next(), Some(("u8", &Value::from("now a text"))), "it is still the first");
    assert_eq!(metadata.len(), sample().len(), "nothing was added");
}

#[test]
fn entries_keep_their_order_when_collected() {
    let keys = |metadata: &Metadata| metadata.iter().map(|(key, _)| key.to_owned()).collect::<Vec<_>>();
    let collected: Metadata = sample().into_iter().collect();
    assert_eq!(collected, sample(), "the same entries");
    let entries = [("a", 1u32), ("b", 2), ("a", 3)].map(|(key, value)| (key.to_owned(), Value::from(value)));
    let repeated: Metadata = entries.into_iter().collect();
    assert_eq!(
        (keys(&repeated), repeated.u32("a")),
        (vec!["a".to_owned(), "b".to_owned()], Ok(Some(3))),
        "the last value"
    );
}

#[test]
fn value_is_changed_in_place() {
    let mut metadata = sample();
    if let Some(Value::Array(array)) = metadata.get_mut("wide") {
        array.truncate(2);
    }
    assert_eq!(metadata.i32s("wide"), Ok(Some(vec![1, -2])), "two elements remain");
    assert_eq!(metadata.get_mut("absent"), None, "a missing key has no value");
}
