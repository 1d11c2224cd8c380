//! Targets of quantisation: llama.cpp's file types.
//!
//! A file type is a mix: most matrices get its [`FileType::dtype`], some get more bits, see [`crate::quantise::mix`]. Some are
//! made only with an importance matrix, see [`FileType::needs_importance`]. Left out are Q1_0 and Q2_0, which this engine does
//! not read.
//!
//! Numbers: `llama_ftype` in <https://github.com/ggml-org/llama.cpp/blob/master/include/llama.h>.

use std::fmt;
use std::str::FromStr;

use cairn_gguf::DType;

/// Defines [`FileType`] and its table from one list: the name, the number in `general.file_type`, the type of most matrices.
macro_rules! file_types {
    ($($name:ident = $number:literal, $dtype:ident;)*) => {
        /// Mix of tensor types, with llama.cpp's names.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[expect(missing_docs, non_camel_case_types, reason = "the names are llama.cpp's")]
        pub enum FileType {
            $($name,)*
        }

        const TABLE: &[(FileType, u32, &str, DType)] =
            &[$((FileType::$name, $number, stringify!($name), DType::$dtype)),*];
    };
}

file_types! {
    F32 = 0, F32;
    F16 = 1, F16;
    BF16 = 32, BF16;
    Q8_0 = 7, Q8_0;
    Q4_0 = 2, Q4_0;
    Q4_1 = 3, Q4_1;
    Q5_0 = 8, Q5_0;
    Q5_1 = 9, Q5_1;
    Q2_K = 10, Q2_K;
    Q3_K_S = 11, Q3_K;
    Q3_K_M = 12, Q3_K;
    Q3_K_L = 13, Q3_K;
    Q4_K_S = 14, Q4_K;
    Q4_K_M = 15, Q4_K;
    Q5_K_S = 16, Q5_K;
    Q5_K_M = 17, Q5_K;
    Q6_K = 18, Q6_K;
    IQ1_S = 24, IQ1_S;
    IQ1_M = 31, IQ1_M;
    IQ2_XXS = 19, IQ2_XXS;
    IQ2_XS = 20, IQ2_XS;
    IQ2_S = 28, IQ2_XS;
    IQ2_M = 29, IQ2_S;
    Q2_K_S = 21, Q2_K;
    IQ3_XXS = 23, IQ3_XXS;
    IQ3_XS = 22, IQ3_S;
    IQ3_S = 26, IQ3_S;
    IQ3_M = 27, IQ3_S;
    IQ4_NL = 25, IQ4_NL;
    IQ4_XS = 30, IQ4_XS;
    TQ1_0 = 36, TQ1_0;
    TQ2_0 = 37, TQ2_0;
    MXFP4_MOE = 38, MXFP4;
}

/// Short names of the usual mixes.
const SHORT: [(&str, FileType); 3] =
    [("Q3_K", FileType::Q3_K_M), ("Q4_K", FileType::Q4_K_M), ("Q5_K", FileType::Q5_K_M)];

/// Name that is not a file type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unsupported quantization type {name} - supported types are {}", names())]
pub struct UnknownFileType {
    /// The name in upper case.
    pub name: String,
}

fn names() -> String {
    TABLE.iter().map(|row| row.2).collect::<Vec<_>>().join(", ")
}

impl FileType {
    /// Returns all file types, the floats first.
    pub fn all() -> impl Iterator<Item = FileType> {
        TABLE.iter().map(|row| row.0)
    }

    fn row(self) -> &'static (FileType, u32, &'static str, DType) {
        TABLE.iter().find(|row| row.0 == self).expect("the macro defines a row for each variant")
    }

    /// Returns the number in `general.file_type`.
    #[must_use]
    pub fn number(self) -> u32 {
        self.row().1
    }

    /// Returns the name, for example `Q4_K_M`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().2
    }

    /// Returns the type of matrices without a rule of their own.
    #[must_use]
    pub fn dtype(self) -> DType {
        self.row().3
    }

    /// Returns whether the matrices are plain floats, without blocks.
    #[must_use]
    pub fn is_float(self) -> bool {
        matches!(self, FileType::F32 | FileType::F16 | FileType::BF16)
    }

    /// Returns whether llama.cpp makes the type only with an importance matrix.
    #[must_use]
    pub fn needs_importance(self) -> bool {
        // IQ3_XS has tensors of IQ3_XXS.
        self.dtype().needs_importance() || matches!(self, FileType::Q2_K_S | FileType::IQ3_XS)
    }

    /// Returns the file type of a number.
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

    /// Parses a name in any case. `Q4_K` means `Q4_K_M`, and likewise for 3 and 5 bits.
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
            assert_eq!(format!("{file_type:?}"), file_type.name(), "name in the table");
            assert_eq!(FileType::from_number(file_type.number()), Some(file_type), "{file_type}: lookup by number");
            assert_eq!(file_type.name().to_lowercase().parse(), Ok(file_type), "{file_type}: lookup by name");
            assert!(FileType::all().take(at).all(|other| other != file_type), "{file_type} has one row");
            assert!(file_type.dtype().encode_error().is_some(), "{file_type} can be encoded");
            if file_type.name() == file_type.dtype().name() {
                assert_eq!(file_type.dtype().file_type(), Some(file_type.number()), "{file_type}: its type's number");
            }
        }
    }

    #[test]
    fn names_are_parsed_in_any_case() {
        let check = |text: &str, expected: Option<FileType>| assert_eq!(text.parse().ok(), expected, "{text}");
        check("q4_K_m", Some(FileType::Q4_K_M));
        check("Q4_K", Some(FileType::Q4_K_M));
        check("q3_k", Some(FileType::Q3_K_M));
        check("iq2_xxs", Some(FileType::IQ2_XXS));
        check("Q1_0", None);
        check("", None);
        let error = "q9".parse::<FileType>().expect_err("no such type").to_string();
        assert!(error.starts_with("unsupported quantization type Q9 - supported types are F32, F16, "), "{error}");
    }
}
