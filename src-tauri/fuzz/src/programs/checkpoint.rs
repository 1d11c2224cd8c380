//! libFuzzer program of the target `checkpoint`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| cairn_fuzz::checkpoint::run(input));
