//! The portable code, compiled for a set of instructions.
//!
//! Every kernel is a safe function with target features. Calling one from code without them is the one thing that takes
//! `unsafe`, and it is written here: at the entry, after a check of the processor, and where portable code calls a variant's own
//! instructions.

/// Defines a variant's functions: the portable code compiled with `$features`, and `$quantised` for products with
/// quantised weights. Each checks the processor first, which costs a load and a test, so that none can run without its
/// instructions. `row` makes of them the variant's row in the table.
macro_rules! kernels {
    ($features:literal, $arith:ty, $require:ident, $float_rows:literal x $float_columns:literal, $quantised:ident) => {
        kernels! { @each $features, $require,
            fn convert(format: Format, x: &[f32], column: &mut [u8]) {
                portable::quantise::convert(format, x, column)
            }
            fn rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
                portable::elementwise::rms_norm::<$arith>(x, weight, eps, out)
            }
            fn rms_norm_in_place(x: &mut [f32], weight: &[f32], eps: f32) {
                portable::elementwise::rms_norm_in_place::<$arith>(x, weight, eps)
            }
            fn rope(x: &mut [f32], cos: &[f32], sin: &[f32], interleaved: bool) {
                portable::elementwise::rope::<$arith>(x, cos, sin, interleaved)
            }
            fn layer_norm(x: &mut [f32], weight: &[f32], eps: f32) {
                portable::elementwise::layer_norm::<$arith>(x, weight, eps)
            }
            fn softmax(x: &mut [f32]) {
                portable::elementwise::softmax::<$arith>(x)
            }
            fn swiglu(gate: &mut [f32], up: &[f32]) {
                portable::activation::swiglu::<$arith>(gate, up)
            }
            fn geglu(gate: &mut [f32], up: &[f32]) {
                portable::activation::geglu::<$arith>(gate, up)
            }
            fn clamped_glu(gate: &mut [f32], up: &[f32], alpha: f32, limit: f32) {
                portable::activation::clamped_glu::<$arith>(gate, up, alpha, limit)
            }
            fn gelu(x: &mut [f32]) {
                portable::activation::gelu::<$arith>(x)
            }
            fn gelu_erf(x: &mut [f32]) {
                portable::activation::gelu_erf::<$arith>(x)
            }
            fn sigmoid(x: &mut [f32]) {
                portable::activation::sigmoid::<$arith>(x)
            }
            fn silu(x: &mut [f32]) {
                portable::activation::silu::<$arith>(x)
            }
            fn relu_squared(x: &mut [f32]) {
                portable::activation::relu_squared(x)
            }
            fn scale(x: &mut [f32], factor: f32) {
                portable::elementwise::scale(x, factor)
            }
            fn softcap(x: &mut [f32], cap: f32) {
                portable::activation::softcap::<$arith>(x, cap)
            }
            fn mul(x: &mut [f32], y: &[f32]) {
                portable::elementwise::mul(x, y)
            }
            fn add(x: &mut [f32], y: &[f32]) {
                portable::elementwise::add(x, y)
            }
            fn add_scaled(x: &mut [f32], y: &[f32], factor: f32) {
                portable::elementwise::add_scaled::<$arith>(x, y, factor)
            }
            fn add_product(x: &mut [f32], y: &[f32], z: &[f32]) {
                portable::elementwise::add_product::<$arith>(x, y, z)
            }
            fn delta(step: $crate::delta::DeltaStep<'_>) {
                portable::delta::step::<$arith>(step)
            }
            fn scan(scan: $crate::scan::Scan<'_>) {
                portable::scan::scan::<$arith>(scan)
            }
            fn encode_row(dtype: cairn_gguf::DType, x: &[f32], row: &mut [u8]) {
                portable::rows::encode::<$arith>(dtype, x, row)
            }
            fn attend(span: AttendSpan<'_>) {
                portable::attention::attend::<$arith>(span)
            }
            fn merge(before: Softmax<'_>, span: &Softmax<'_>) {
                portable::attention::merge::<$arith>(before, span)
            }
            fn finish(sum: &[f32], acc: &mut [f32]) {
                portable::attention::finish(sum, acc)
            }
            fn matmul(m: MatMul<'_>) {
                m.check();
                match m.columns.format {
                    Format::F32 => portable::float::matmul::<$arith, $float_rows, $float_columns>(m),
                    Format::Q8x32 | Format::Q8x256 => $quantised(m),
                }
            }
        }
    };
    (@each $features:literal, $require:ident, $(fn $name:ident($($arg:ident: $ty:ty),*) $body:block)*) => {
        $(fn $name($($arg: $ty),*) {
            #[target_feature(enable = $features)]
            fn compiled($($arg: $ty),*) $body

            $require();
            // SAFETY: the line before checks that this processor has every feature that `compiled` is built with.
            unsafe { compiled($($arg),*) }
        })*

        const fn row(name: &'static str, numerics_rev: u32, usable: fn(&cairn_hardware::Features) -> bool) -> Variant {
            Variant { name, numerics_rev, usable, decode_row: $crate::scalar::decode_row, $($name),* }
        }
    };
}
pub(crate) use kernels;

/// Implements [`Arith`](crate::portable::Arith) for a file's `FusedArith` by the file's functions of the same names, which
/// have target features. What comes after them, `$more`, is what not every architecture has instructions for. `FusedArith` is
/// to be named by nothing but [`kernels!`] with those features.
macro_rules! fused {
    (@each $(fn $name:ident($($arg:ident: $ty:ty),*) $(-> $out:ty)?;)*) => {
        impl $crate::portable::Arith for FusedArith {
            #[inline(always)]
            fn fma(a: f32, b: f32, c: f32) -> f32 {
                a.mul_add(b, c)
            }

            $(#[inline(always)]
            fn $name($($arg: $ty),*) $(-> $out)? {
                // SAFETY: `FusedArith` is named only by variants' `kernels!`, whose functions check the processor first.
                unsafe { $name($($arg),*) }
            })*
        }
    };
    ($($more:tt)*) => {
        fused! { @each
            fn fma_lanes(a: &Lanes, b: &Lanes, c: &mut Lanes);
            fn fma_splat(a: f32, b: &Lanes, c: &mut Lanes);
            fn read_f16(bytes: &[u8; 2 * LANES]) -> Lanes;
            fn read_bf16(bytes: &[u8; 2 * LANES]) -> Lanes;
            fn widen(half: &[u16; LANES]) -> Lanes;
            fn narrow(x: &Lanes) -> [u16; LANES];
            fn transpose_f16(rows: [&[u8; 2 * LANES]; LANES]) -> [Lanes; LANES];
            $($more)*
        }
    };
}
pub(crate) use fused;
