//! Splits a model file as llama.cpp's `gguf-split` does.

use cairn_gguf::{Gguf, Writer};

/// Returns the files of a split model. The first has all metadata; tensors are distributed evenly.
///
/// # Panics
/// When `file` is not a GGUF file, or `count` exceeds `u16::MAX`.
pub fn split(file: &[u8], count: usize) -> Vec<Vec<u8>> {
    let gguf = Gguf::parse(file).expect("the file is valid GGUF");
    let tensors = gguf.tensors();
    let short = |value: usize| u16::try_from(value).expect("the number of parts fits into a u16");
    (0..count)
        .map(|number| {
            let mut writer = Writer::new(gguf.alignment);
            if number == 0 {
                for (key, value) in gguf.metadata().iter().filter(|(key, _)| *key != "general.alignment") {
                    writer.set(key, value.clone());
                }
            }
            writer.set("split.no", short(number)).set("split.count", short(count));
            writer.set(
                "split.tensors.count",
                i32::try_from(tensors.len()).expect("the number of tensors fits into an i32"),
            );
            for tensor in &tensors[number * tensors.len() / count..(number + 1) * tensors.len() / count] {
                let bytes = &file[tensor.offset as usize..(tensor.offset + tensor.bytes) as usize];
                let added = writer.tensor(&tensor.name, tensor.dtype, &tensor.dims, bytes);
                added.expect("a parsed tensor is valid");
            }
            writer.finish()
        })
        .collect()
}
