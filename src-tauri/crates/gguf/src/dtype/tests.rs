//! The table of types, the error of encoding, dot products, and refused arguments.

use super::*;

/// Values with the spread of real weights, the same on every run.
fn weights(count: usize) -> Vec<f32> {
    let mut state = 1u64;
    let mut uniform = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    (0..count).map(|_| uniform() + uniform() + uniform()).collect()
}

#[test]
fn table_rows_are_in_the_order_of_the_variants() {
    for (i, row) in TABLE.iter().enumerate() {
        assert_eq!(row.dtype as usize, i, "{}: a variant's number is its row's index", row.name);
        assert_eq!(format!("{:?}", row.dtype), row.name, "a row's name is its variant's");
        assert_eq!(DType::from_ggml_id(row.ggml_id), Some(row.dtype), "{}: the number leads back", row.name);
    }
    assert_eq!(DType::from_ggml_id(4), None, "a number that ggml retired");
    for id in 0..64 {
        let is_read = DType::from_ggml_id(id).is_some();
        assert!(!(is_read && DType::refused_name(id).is_some()), "{id}: a type is either read or refused");
    }
}

#[test]
fn encode_error_is_within_the_bound_of_the_type() {
    let x = weights(8192);
    for (dtype, bound) in DType::all().filter_map(|dtype| Some((dtype, dtype.encode_error()?))) {
        let mut blocks = Vec::new();
        if dtype.needs_importance() {
            dtype.encode_weighted(&x, &[1.0; 1024], &mut blocks).expect("the type has an encoder");
        } else {
            dtype.encode(&x, &mut blocks).expect("the type has an encoder");
        }
        let mut back = vec![0.0; x.len()];
        dtype.decode(&blocks, &mut back);
        let square = |x: f32| f64::from(x) * f64::from(x);
        let error: f64 = x.iter().zip(&back).map(|(x, back)| square(x - back)).sum();
        let relative = (error / x.iter().map(|&x| square(x)).sum::<f64>()).sqrt();
        assert!(relative <= bound, "{dtype}: error {relative} is above {bound}");
        assert!(relative >= bound / 2.0, "{dtype}: error {relative} is so far below {bound} that the bound is useless");
    }
}

#[test]
fn dot_is_the_product_of_decoded_values() {
    let x = weights(1024);
    for dtype in DType::all() {
        let blocks: Vec<u8> = (0..dtype.row_bytes(x.len())).map(|i| (i * 37 % 64) as u8).collect();
        let mut values = vec![0.0; x.len()];
        dtype.decode(&blocks, &mut values);
        let expected: f64 = values.iter().zip(&x).map(|(&w, &x)| f64::from(w) * f64::from(x)).sum();
        let dot = dtype.dot(&blocks, &x);
        let scale: f64 = values.iter().zip(&x).map(|(&w, &x)| (f64::from(w) * f64::from(x)).abs()).sum();
        assert!((dot - expected).abs() <= 1e-12 * scale, "{dtype}: {dot} is not {expected}");
    }
}

#[test]
fn integers_and_doubles_decode_to_the_nearest_float() {
    let check = |dtype: DType, bytes: &[u8], expected: f32| {
        let mut out = [0.0];
        dtype.decode(bytes, &mut out);
        assert_eq!(out, [expected], "{dtype} of {bytes:?}");
    };
    check(DType::I8, &(-7i8).to_le_bytes(), -7.0);
    check(DType::I16, &(-300i16).to_le_bytes(), -300.0);
    check(DType::I32, &70_000i32.to_le_bytes(), 70_000.0);
    check(DType::I64, &(1i64 << 40).to_le_bytes(), 1_099_511_627_776.0);
    check(DType::F64, &0.1f64.to_le_bytes(), 0.1);
}

#[test]
fn encode_refuses_types_without_encoder_and_partial_blocks() {
    let check = |dtype: DType, elements: usize, expected: &str| {
        let error = dtype.encode(&vec![0.0; elements], &mut Vec::new()).expect_err("this cannot be encoded");
        assert_eq!(error.to_string(), expected, "{dtype} of {elements}");
    };
    check(DType::NVFP4, 64, "NVFP4 has no encoder");
    check(DType::IQ2_S, 256, "IQ2_S can only be encoded with an importance matrix");
    check(DType::I32, 1, "I32 has no encoder");
    check(DType::Q8_0, 33, "33 elements are not whole blocks; Q8_0 has 32 elements in a block");
}

#[test]
fn encode_weighted_refuses_partial_rows_and_blocks() {
    let check = |dtype: DType, elements: usize, columns: usize, expected: &str| {
        let error = dtype.encode_weighted(&vec![0.0; elements], &vec![1.0; columns], &mut Vec::new());
        assert_eq!(
            error.expect_err("this cannot be encoded").to_string(),
            expected,
            "{dtype}: {elements} of {columns}"
        );
    };
    let rows = |elements: usize, columns: usize| {
        format!("{elements} elements are not whole rows of {columns} columns, one for each number of the importance")
    };
    check(DType::Q4_K, 512, 384, &rows(512, 384));
    check(DType::Q4_K, 256, 0, &rows(256, 0));
    check(DType::Q4_K, 256, 128, "128 elements are not whole blocks; Q4_K has 256 elements in a block");
    check(DType::NVFP4, 64, 64, "NVFP4 has no encoder");
}

#[test]
fn encode_weighted_uses_each_blocks_own_columns() {
    let x = weights(512);
    let importance: Vec<f32> = weights(512).iter().map(|w| w * w).collect();
    for dtype in DType::all().filter(|dtype| dtype.block() == 256 && dtype.encode_error().is_some()) {
        let (mut row, mut blocks) = (Vec::new(), Vec::new());
        dtype.encode_weighted(&x, &importance, &mut row).expect("the type has an encoder");
        for (x, importance) in x.chunks(256).zip(importance.chunks(256)) {
            dtype.encode_weighted(x, importance, &mut blocks).expect("the type has an encoder");
        }
        assert_eq!(row, blocks, "{dtype}: the second block is encoded with the second half of the importance");
    }
}

#[test]
fn importance_moves_the_error_to_unimportant_columns() {
    let x = weights(8192);
    let importance: Vec<f32> = (0..256).map(|column| if column % 4 == 0 { 100.0 } else { 1.0 }).collect();
    let error = |dtype: DType, blocks: &[u8]| {
        let mut back = vec![0.0; x.len()];
        dtype.decode(blocks, &mut back);
        let columns = x.iter().zip(&back).zip(importance.iter().cycle());
        columns.map(|((x, back), w)| f64::from(w * (x - back) * (x - back))).sum::<f64>()
    };
    for dtype in DType::all().filter(|dtype| dtype.row().encode_weighted.is_some()) {
        let (mut weighted, mut even) = (Vec::new(), Vec::new());
        dtype.encode_weighted(&x, &importance, &mut weighted).expect("the type has an encoder");
        dtype.encode_weighted(&x, &[1.0; 256], &mut even).expect("the type has an encoder");
        let (weighted, even) = (error(dtype, &weighted), error(dtype, &even));
        assert!(weighted < 0.97 * even, "{dtype}: weighted error {weighted}, {even} with even importance");
    }
}

#[test]
fn nan_and_infinity_are_encoded_without_panic() {
    let x = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN_POSITIVE, 1e-45, -0.0, 1.0].repeat(32);
    for dtype in DType::all() {
        let mut blocks = Vec::new();
        if dtype.encode(&x, &mut blocks).is_ok() {
            assert_eq!(blocks.len(), dtype.row_bytes(x.len()), "{dtype}: whole blocks, whatever they hold");
        }
        for importance in [0.0, 1.0, f32::NAN, f32::INFINITY, -1.0] {
            blocks.clear();
            if dtype.encode_weighted(&x, &[importance; 256], &mut blocks).is_ok() {
                assert_eq!(blocks.len(), dtype.row_bytes(x.len()), "{dtype}: whole blocks, whatever they hold");
            }
        }
    }
}

#[test]
#[should_panic(expected = "Q8_0: 33 bytes are not 32 elements")]
fn decoding_partial_blocks_is_a_caller_error() {
    DType::Q8_0.decode(&[0; 33], &mut [0.0; 32]);
}
