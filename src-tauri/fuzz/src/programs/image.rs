//! libFuzzer program of the target `image`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| cairn_fuzz::image::run(file));
