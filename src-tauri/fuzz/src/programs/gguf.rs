//! Hands the target `gguf` to libFuzzer, with an allocator that counts.
#![no_main]

use cairn_testkit::allocation::Counting;
use libfuzzer_sys::fuzz_target;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fuzz_target!(|file: &[u8]| cairn_fuzz::gguf::run(file));
