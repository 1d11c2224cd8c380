//! A model's file cut into parts, as llama.cpp's `gguf-split` does.

use cairn_gguf::{Gguf, Writer};

/// The parts of a model, as files: the first with all metadata, each with about as many tensors as the others.
///
/// # Panics
/// When `file` is not a GGUF file, or is to become more parts than a `u16` counts.
pub fn split(file: &[u8], count: usize) -> Vec<Vec<u8>> {
    let gguf = Gguf::parse(file).expect("a whole file is split");
    let tensors = gguf.tensors();
    let short = |value: usize| u16::try_from(value).expect("parts are few");
    (0..count)
        .map(|number| {
            let mut writer = Writer::new(gguf.alignment);
            if number == 0 {
                for (key, value) in gguf.metadata().iter().filter(|(key, _)| *key != "general.alignment") {
                    writer.set(key, value.clone());
                }
            }
            writer.set("split.no", short(number)).set("split.count", short(count));
            writer.set("split.tensors.count", i32::try_from(tensors.len()).expect("a file has fewer tensors"));
            for tensor in &tensors[number * tensors.len() / count..(number + 1) * tensors.len() / count] {
                let bytes = &file[tensor.offset as usize..(tensor.offset + tensor.bytes) as usize];
                let added = writer.tensor(&tensor.name, tensor.dtype, &tensor.dims, bytes);
                added.expect("what was read can be written");
            }
            writer.finish()
        })
        .collect()
}
