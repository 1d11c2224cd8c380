//! Columns and products.

use cairn_gguf::DType;

use super::{Noise, assert_near, bits, scalar, set_scales, types, usable};
use crate::{Columns, Format, MatMul, Scratch, Variant};

/// Weights and activations of one test.
struct Case {
    dtype: DType,
    k: usize,
    rows: usize,
    weights: Vec<u8>,
    activations: Vec<Vec<f32>>,
}

impl Case {
    fn random(dtype: DType, k: usize, rows: usize, columns: usize) -> Self {
        let mut noise = Noise((k * 1_000_003 + rows * 1009 + columns) as u64 ^ dtype as u64);
        let weights = noise.weights(dtype, rows, k);
        let activations = (0..columns).map(|_| noise.activations(k)).collect();
        Self { dtype, k, rows, weights, activations }
    }

    /// The columns that `variant` makes of the activations.
    fn convert(&self, variant: &Variant) -> Vec<u8> {
        let format = Format::of(self.dtype);
        let bytes = format.column_bytes(self.k);
        assert!(bytes.is_multiple_of(64), "columns are whole cache lines");
        let mut columns = vec![0xa5; bytes * self.activations.len()];
        for (x, column) in self.activations.iter().zip(columns.chunks_exact_mut(bytes)) {
            (variant.convert)(format, x, column);
        }
        columns
    }

    /// Products of the rows `rows` with the columns `columns`: `[columns, rows]`.
    fn product(
        &self,
        variant: &Variant,
        converted: &[u8],
        rows: std::ops::Range<usize>,
        columns: std::ops::Range<usize>,
    ) -> Vec<f32> {
        let format = Format::of(self.dtype);
        let (row_bytes, column_bytes) = (self.dtype.row_bytes(self.k), format.column_bytes(self.k));
        let stride = rows.len() + 3;
        let mut out = vec![f32::MAX; columns.len() * stride];
        (variant.matmul)(MatMul {
            dtype: self.dtype,
            k: self.k,
            weights: &self.weights[rows.start * row_bytes..rows.end * row_bytes],
            rows: rows.len(),
            columns: Columns {
                format,
                k: self.k,
                bytes: &converted[columns.start * column_bytes..columns.end * column_bytes],
                count: columns.len(),
            },
            out: &mut out,
            out_stride: stride,
            scratch: &mut Scratch::new(),
        });
        let what = format!("{} {:?}", variant.name, self.dtype);
        out.chunks_exact(stride)
            .flat_map(|column| {
                let (results, gap) = column.split_at(rows.len());
                assert!(gap.iter().all(|&x| x == f32::MAX), "{what}: places between columns are left alone");
                results.to_vec()
            })
            .collect()
    }

    fn all(&self, variant: &Variant) -> Vec<f32> {
        self.product(variant, &self.convert(variant), 0..self.rows, 0..self.activations.len())
    }

    /// The exact products of the decoded weights with the activations as the columns hold them, and for each the sum of
    /// magnitudes that rounding errors are proportional to.
    fn oracle(&self) -> (Vec<f64>, Vec<f64>) {
        let format = Format::of(self.dtype);
        let columns = self.convert(scalar());
        let mut decoded = vec![0.0; self.rows * self.k];
        self.dtype.decode(&self.weights, &mut decoded);
        let mut exact = Vec::new();
        let mut magnitude = Vec::new();
        for column in columns.chunks_exact(format.column_bytes(self.k)) {
            let x = read_column(format, self.k, column);
            for row in decoded.chunks_exact(self.k) {
                let products = || row.iter().zip(&x).map(|(&w, &x)| f64::from(w) * x);
                exact.push(products().sum());
                magnitude.push(products().map(f64::abs).sum());
            }
        }
        (exact, magnitude)
    }
}

/// The activations that a column encodes.
fn read_column(format: Format, k: usize, column: &[u8]) -> Vec<f64> {
    let block = match format {
        Format::F32 => return floats(&column[..4 * k]).map(f64::from).collect(),
        Format::Q8x32 => 32,
        Format::Q8x256 => 256,
    };
    let scales: Vec<f32> = floats(&column[..k / block * 4]).collect();
    let values = &column[column.len() - k.next_multiple_of(64)..];
    (0..k).map(|i| f64::from(scales[i / block]) * f64::from(values[i] as i8)).collect()
}

fn floats(bytes: &[u8]) -> impl Iterator<Item = f32> {
    bytes.as_chunks::<4>().0.iter().map(|&x| f32::from_le_bytes(x))
}

/// Widths that a type can have: one block, several, an odd number of them.
fn widths(dtype: DType) -> &'static [usize] {
    match dtype.block() {
        1 => &[1, 15, 17, 96, 250],
        32 => &[32, 96, 896],
        64 => &[64, 192, 896],
        _ => &[256, 768],
    }
}

#[test]
fn product_is_independent_of_rows_and_columns_beside_it() {
    for dtype in types() {
        for &k in widths(dtype) {
            let case = Case::random(dtype, k, 40, 40);
            for variant in usable() {
                let columns = case.convert(variant);
                let single = |row: usize, column: usize| {
                    case.product(variant, &columns, row..row + 1, column..column + 1)[0].to_bits()
                };
                let single: Vec<Vec<u32>> = (0..40).map(|c| (0..40).map(|r| single(r, c)).collect()).collect();
                for n in 1..=40 {
                    let rows = 41 - n;
                    for (rows, first) in [(n, 0), (rows, n - 1)] {
                        let together = bits(&case.product(variant, &columns, first..first + rows, 0..n));
                        let alone: Vec<u32> =
                            single[..n].iter().flat_map(|column| &column[first..first + rows]).copied().collect();
                        assert_eq!(together, alone, "{} {dtype:?} k {k}: {rows} rows x {n} columns", variant.name);
                    }
                }
            }
        }
    }
}

#[test]
fn product_of_many_columns_equals_single_columns() {
    for dtype in types() {
        let k = 2080usize.next_multiple_of(dtype.block());
        let case = Case::random(dtype, k, 19, 512);
        for variant in usable() {
            let columns = case.convert(variant);
            let single: Vec<u32> =
                (0..512).flat_map(|c| bits(&case.product(variant, &columns, 0..19, c..c + 1))).collect();
            for n in [64, 512] {
                let together = bits(&case.product(variant, &columns, 0..19, 0..n));
                assert_eq!(together, single[..19 * n], "{} {dtype:?}: {n} columns", variant.name);
            }
        }
    }
}

/// Holds every variant against the scalar one, and the scalar one against the exact products.
fn check(what: &str, case: &Case) {
    let (exact, magnitude) = case.oracle();
    let expected = scalar();
    let columns = case.convert(expected);
    let products = case.all(expected);
    // One rounding per block and one for each product of scales; floats have one per element of a lane.
    let bound = |i: usize| magnitude[i] * (case.k as f64 / 16.0 + 8.0) * 2f64.powi(-24) + 1e-30;
    assert_near(&format!("scalar {what}"), &products, &exact, bound);
    for variant in usable() {
        let what = format!("{} {what}", variant.name);
        assert_eq!(case.convert(variant), columns, "{what}: all variants convert alike");
        let got = case.all(variant);
        if Format::of(case.dtype) == Format::F32 {
            assert_near(&what, &got, &exact, bound);
        } else {
            assert_eq!(bits(&got), bits(&products), "{what}: integers are exact, so all variants give the same bits");
        }
    }
}

#[test]
fn variants_equal_scalar_and_scalar_is_near_exact_products() {
    for dtype in types() {
        for &k in widths(dtype) {
            for (rows, columns) in [(1, 1), (37, 1), (5, 3), (33, 11)] {
                check(&format!("{dtype:?} k {k}, {rows} x {columns}"), &Case::random(dtype, k, rows, columns));
            }
        }
    }
}

/// Sets every block's scales and all its other bytes, and the activations to a constant and to its alternating signs.
fn check_extreme(what: &str, dtype: DType, scale: u16, fill: u8, activation: f32) {
    let k = 512;
    let mut weights = vec![fill; 18 * dtype.row_bytes(k)];
    for block in weights.chunks_exact_mut(dtype.block_bytes()) {
        set_scales(dtype, block, || scale);
    }
    let constant = vec![activation; k];
    let alternating = (0..k).map(|i| if i % 2 == 0 { activation } else { -activation }).collect();
    let negative = vec![-activation; k];
    for activations in [vec![constant.clone()], vec![constant, alternating, negative]] {
        check(&format!("{dtype:?} {what}"), &Case { dtype, k, rows: 18, weights: weights.clone(), activations });
    }
}

#[test]
fn products_of_extreme_values_do_not_saturate() {
    for dtype in types().filter(|&dtype| Format::of(dtype) != Format::F32) {
        // -1, -128 for signed bytes and halves of nibbles, 127, and the largest and smallest quants.
        for fill in [0xff, 0x80, 0x7f, 0x00] {
            let what = format!("filled with {fill:#x}");
            check_extreme(&format!("{what}, scale one"), dtype, 0x3c00, fill, 1.0);
            check_extreme(&format!("{what}, largest scale"), dtype, 0x7bff, fill, 1e3);
            check_extreme(&format!("{what}, smallest subnormal scale"), dtype, 0x0001, fill, 1.0);
            check_extreme(&format!("{what}, scale zero"), dtype, 0, fill, 1.0);
            check_extreme(&format!("{what}, activations zero"), dtype, 0x3c00, fill, 0.0);
        }
    }
}

#[test]
fn mxfp4_scales_by_every_exponent() {
    // Activations so small that the largest scale leaves their products finite, and the smallest makes them vanish.
    for magnitude in [1e-12, 1.0] {
        let mut case = Case::random(DType::MXFP4, 64, 256, 9);
        for (row, bytes) in case.weights.chunks_exact_mut(DType::MXFP4.row_bytes(64)).enumerate() {
            bytes[0] = row as u8;
            bytes[DType::MXFP4.block_bytes()] = row as u8;
        }
        case.activations.iter_mut().flatten().for_each(|x| *x *= magnitude);
        let finite = if magnitude < 1.0 { 256 } else { 240 };
        case.weights.truncate(finite * DType::MXFP4.row_bytes(64));
        case.rows = finite;
        let expected = case.all(scalar());
        assert!(expected.iter().all(|x| x.is_finite()), "finite products for {magnitude}");
        for variant in usable() {
            let columns = case.convert(variant);
            assert_eq!(bits(&case.all(variant)), bits(&expected), "{} for {magnitude}", variant.name);
            let single = case.product(variant, &columns, 0..finite, 0..1);
            assert_eq!(bits(&single), bits(&expected[..finite]), "{} for {magnitude}, one column", variant.name);
        }
    }
}

#[test]
fn products_of_unaligned_weights_are_equal() {
    for dtype in types() {
        let k = 768;
        let case = Case::random(dtype, k, 21, 9);
        for variant in usable() {
            let expected = bits(&case.all(variant));
            for offset in [1, 2, 3] {
                let mut moved = vec![0; offset];
                moved.extend(&case.weights);
                let columns = case.convert(variant);
                let mut moved_columns = vec![0; offset];
                moved_columns.extend(&columns);
                let mut out = vec![0.0; 21 * 9];
                (variant.matmul)(MatMul {
                    dtype,
                    k,
                    weights: &moved[offset..],
                    rows: 21,
                    columns: Columns { format: Format::of(dtype), k, bytes: &moved_columns[offset..], count: 9 },
                    out: &mut out,
                    out_stride: 21,
                    scratch: &mut Scratch::new(),
                });
                assert_eq!(bits(&out), expected, "{} {dtype:?} at an offset of {offset} bytes", variant.name);
            }
        }
    }
}

#[test]
fn product_with_scratch_of_other_types_gives_same_bits() {
    for variant in usable() {
        let mut scratch = Scratch::new();
        // Up and down, so that each type follows wider and narrower ones, of larger and of smaller blocks.
        let quantised: Vec<DType> = types().filter(|dtype| dtype.block() > 1).collect();
        for (index, &dtype) in quantised.iter().chain(quantised.iter().rev()).enumerate() {
            let k = [1024, 256, 512][index % 3];
            let case = Case::random(dtype, k, 20, 10);
            let columns = case.convert(variant);
            let mut out = vec![0.0; 200];
            (variant.matmul)(MatMul {
                dtype,
                k,
                weights: &case.weights,
                rows: 20,
                columns: Columns { format: Format::of(dtype), k, bytes: &columns, count: 10 },
                out: &mut out,
                out_stride: 20,
                scratch: &mut scratch,
            });
            assert_eq!(bits(&out), bits(&case.all(variant)), "{} {dtype:?} after others", variant.name);
        }
    }
}

#[test]
fn product_with_nan_or_infinity_is_not_finite() {
    for dtype in types() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut case = Case::random(dtype, 256, 17, 9);
            for x in &mut case.activations {
                x[77] = bad;
            }
            for variant in usable() {
                let finite = case.all(variant).iter().filter(|x| x.is_finite()).count();
                assert_eq!(finite, 0, "{} {dtype:?}: {bad} must not look like a number", variant.name);
            }
        }
    }
}

#[test]
fn convert_rounds_values_and_stores_their_sums() {
    for (format, block, group) in [(Format::Q8x32, 32, 32), (Format::Q8x256, 256, 16)] {
        let mut x = Noise(7).activations(768);
        x[256..512].fill(0.0);
        for variant in usable() {
            let mut column = vec![0xff; format.column_bytes(768)];
            (variant.convert)(format, &x, &mut column);
            let back = read_column(format, 768, &column);
            let values = &column[column.len() - 768..];
            let width = if group == 32 { 4 } else { 2 };
            let sums = &column[(768 / block * 4usize).next_multiple_of(64)..];
            for (i, (&x, &back)) in x.iter().zip(&back).enumerate() {
                let largest = back_block(&back_values(&values[i / block * block..][..block]));
                let scale = f64::from(f32::from_le_bytes(*column[i / block * 4..].first_chunk().expect("four bytes")));
                assert!((f64::from(x) - back).abs() <= scale * 0.5001, "{format:?}[{i}]: {x} became {back}");
                assert!(
                    largest == 127 || scale == 0.0,
                    "{format:?}: the largest value of a block is 127, not {largest}"
                );
            }
            for (i, values) in values.chunks_exact(group).enumerate() {
                let mut stored = [0; 4];
                stored[..width].copy_from_slice(&sums[i * width..(i + 1) * width]);
                let stored = if width == 4 {
                    i32::from_le_bytes(stored)
                } else {
                    i32::from(i16::from_le_bytes([stored[0], stored[1]]))
                };
                assert_eq!(stored, back_values(values).iter().sum::<i32>(), "{format:?}: sum {i}");
            }
        }
    }
}

fn back_values(values: &[u8]) -> Vec<i32> {
    values.iter().map(|&value| i32::from(value as i8)).collect()
}

fn back_block(values: &[i32]) -> i32 {
    values.iter().map(|value| value.abs()).max().unwrap_or(0)
}

#[test]
fn decode_row_equals_the_type_definition() {
    for dtype in types() {
        let case = Case::random(dtype, 512, 1, 0);
        let mut expected = vec![0.0; 512];
        dtype.decode(&case.weights, &mut expected);
        for variant in usable() {
            let mut got = vec![0.0; 512];
            (variant.decode_row)(dtype, &case.weights, &mut got);
            assert_eq!(bits(&got), bits(&expected), "{} {dtype:?}", variant.name);
        }
    }
}
