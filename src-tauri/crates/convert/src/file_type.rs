//! What a model's weights are quantised to: llama.cpp's file types, those of them that need no importance matrix.
//!
//! A file type is a mix: most matrices get its [`FileType::dtype`], some more, as [`crate::quantise::mix`] says. Types that
//! llama.cpp refuses to make without an importance matrix (IQ1, IQ2, IQ3_XXS, IQ3_XS, Q2_K_S) are not here, nor are Q1_0 and
//! Q2_0, which this engine does not read.
//!
//! Numbers: `llama_ftype` in <https://github.com/ggml-org/llama.cpp/blob/master/include/llama.h>.

use std::fmt;
use std::str::FromStr;

use cairn_gguf::DType;

/// A mix of tensor types, named as llama.cpp names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, non_camel_case_types, reason = "the names are the field's own, and the table says the rest")]
pub enum FileType {
    F32,
    F16,
    BF16,
    Q8_0,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q2_K,
    Q3_K_S,
    Q3_K_M,
    Q3_K_L,
    Q4_K_S,
    Q4_K_M,
    Q5_K_S,
    Q5_K_M,
    Q6_K,
    IQ3_S,
    IQ3_M,
    IQ4_NL,
    IQ4_XS,
    TQ1_0,
    TQ2_0,
    MXFP4_MOE,
}

/// Each file type with its number in `general.file_type`, its name, and the type of most of its matrices.
const TABLE: [(FileType, u32, &str, DType); 24] = [
    (FileType::F32, 0, "F32", DType::F32),
    (FileType::F16, 1, "F16", DType::F16),
    (FileType::BF16, 32, "BF16", DType::BF16),
    (FileType::Q8_0, 7, "Q8_0", DType::Q8_0),
    (FileType::Q4_0, 2, "Q4_0", DType::Q4_0),
    (FileType::Q4_1, 3, "Q4_1", DType::Q4_1),
    (FileType::Q5_0, 8, "Q5_0", DType::Q5_0),
    (FileType::Q5_1, 9, "Q5_1", DType::Q5_1),
    (FileType::Q2_K, 10, "Q2_K", DType::Q2_K),
    (FileType::Q3_K_S, 11, "Q3_K_S", DType::Q3_K),
    (FileType::Q3_K_M, 12, "Q3_K_M", DType::Q3_K),
    (FileType::Q3_K_L, 13, "Q3_K_L", DType::Q3_K),
    (FileType::Q4_K_S, 14, "Q4_K_S", DType::Q4_K),
    (FileType::Q4_K_M, 15, "Q4_K_M", DType::Q4_K),
    (FileType::Q5_K_S, 16, "Q5_K_S", DType::Q5_K),
    (FileType::Q5_K_M, 17, "Q5_K_M", DType::Q5_K),
    (FileType::Q6_K, 18, "Q6_K", DType::Q6_K),
    (FileType::IQ3_S, 26, "IQ3_S", DType::IQ3_S),
    (FileType::IQ3_M, 27, "IQ3_M", DType::IQ3_S),
    (FileType::IQ4_NL, 25, "IQ4_NL", DType::IQ4_NL),
    (FileType::IQ4_XS, 30, "IQ4_XS", DType::IQ4_XS),
    (FileType::TQ1_0, 36, "TQ1_0", DType::TQ1_0),
    (FileType::TQ2_0, 37, "TQ2_0", DType::TQ2_0),
    (FileType::MXFP4_MOE, 38, "MXFP4_MOE", DType::MXFP4),
];

/// Names for the mix that is usually meant.
const SHORT: [(&str, FileType); 3] =
    [("Q3_K", FileType::Q3_K_M), ("Q4_K", FileType::Q4_K_M), ("Q5_K", FileType::Q5_K_M)];

/// A name that is none of a file type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unsupported quantization type {name} - supported types are {}", names())]
pub struct UnknownFileType {
    /// The name, in capitals.
    pub name: String,
}

fn names() -> String {
    TABLE.map(|(_, _, name, _)| name).join(", ")
}

impl FileType {
    /// All file types, the floats first.
    pub fn all() -> impl Iterator<Item = FileType> {
        TABLE.iter().map(|row| row.0)
    }

    fn row(self) -> &'static (FileType, u32, &'static str, DType) {
        TABLE.iter().find(|row| row.0 == self).expect("each variant has its row, which a test holds")
    }

    /// Its number in `general.file_type`.
    #[must_use]
    pub fn number(self) -> u32 {
        self.row().1
    }

    /// Its name, for example `Q4_K_M`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().2
    }

    /// The type that matrices have unless the mix says another one.
    #[must_use]
    pub fn dtype(self) -> DType {
        self.row().3
    }

    /// Whether its matrices are numbers of their own, in no blocks.
    #[must_use]
    pub fn is_float(self) -> bool {
        matches!(self, FileType::F32 | FileType::F16 | FileType::BF16)
    }

    /// The file type of this number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<FileType> {
        TABLE.iter().find(|row| row.1 == number).map(|row| row.0)
    }
}

impl fmt::Display for FileType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for FileType {
    type Err = UnknownFileType;

    /// Reads a name in capitals or small letters; `Q4_K` is `Q4_K_M`, and so for 3 and 5 bits.
    fn from_str(text: &str) -> Result<FileType, UnknownFileType> {
        let name = text.to_ascii_uppercase();
        let full = TABLE.iter().find(|row| row.2 == name).map(|row| row.0);
        let short = || SHORT.iter().find(|(short, _)| *short == name).map(|(_, file_type)| *file_type);
        full.or_else(short).ok_or(UnknownFileType { name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_variant_number_and_name() {
        for (at, file_type) in FileType::all().enumerate() {
            assert_eq!(format!("{file_type:?}"), file_type.name(), "a variant is named like its row");
            assert_eq!(
                FileType::from_number(file_type.number()),
                Some(file_type),
                "{file_type}: the number leads back"
            );
            assert_eq!(file_type.name().to_lowercase().parse(), Ok(file_type), "{file_type}: so does the name");
            assert!(FileType::all().take(at).all(|other| other != file_type), "{file_type} has one row");
            assert!(file_type.dtype().encode(&[], &mut Vec::new()).is_ok(), "{file_type} can be encoded");
        }
    }

    #[test]
    fn names_are_read_as_they_are_written_elsewhere() {
        let check = |text: &str, expected: Option<FileType>| assert_eq!(text.parse().ok(), expected, "{text}");
        check("q4_K_m", Some(FileType::Q4_K_M));
        check("Q4_K", Some(FileType::Q4_K_M));
        check("q3_k", Some(FileType::Q3_K_M));
        check("IQ2_XXS", None);
        check("", None);
        let error = "q9".parse::<FileType>().expect_err("there is none").to_string();
        assert!(error.starts_with("unsupported quantization type Q9 - supported types are F32, F16, "), "{error}");
    }
}
