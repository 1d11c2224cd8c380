//! Hands the target `chunk` to libFuzzer, with an allocator that counts.
#![no_main]

use cairn_testkit::allocation::Counting;
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fuzz_target!(|input: &[u8]| cairn_fuzz::chunk::run(input));
