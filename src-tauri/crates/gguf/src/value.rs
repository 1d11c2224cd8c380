//! Metadata values: the thirteen types of the format, and arrays of each.
//!
//! Arrays are stored unboxed, one vector per element type, because a vocabulary is an array of up to 260,000 strings
//! and as many floats.

use crate::strings::Strings;

/// Type of a metadata value, with its number in the file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Type {
    U8 = 0,
    I8 = 1,
    U16 = 2,
    I16 = 3,
    U32 = 4,
    I32 = 5,
    F32 = 6,
    Bool = 7,
    String = 8,
    Array = 9,
    U64 = 10,
    I64 = 11,
    F64 = 12,
}

/// One metadata value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Unsigned 8-bit integer.
    U8(u8),
    /// Signed 8-bit integer.
    I8(i8),
    /// Unsigned 16-bit integer.
    U16(u16),
    /// Signed 16-bit integer.
    I16(i16),
    /// Unsigned 32-bit integer.
    U32(u32),
    /// Signed 32-bit integer.
    I32(i32),
    /// IEEE 754 binary32.
    F32(f32),
    /// One byte, 0 or 1.
    Bool(bool),
    /// UTF-8 text.
    String(String),
    /// Elements of one type.
    Array(Array),
    /// Unsigned 64-bit integer.
    U64(u64),
    /// Signed 64-bit integer.
    I64(i64),
    /// IEEE 754 binary64.
    F64(f64),
}

/// The elements of an array value, all of one type.
#[derive(Clone, Debug, PartialEq)]
pub enum Array {
    /// Unsigned 8-bit integers.
    U8(Vec<u8>),
    /// Signed 8-bit integers.
    I8(Vec<i8>),
    /// Unsigned 16-bit integers.
    U16(Vec<u16>),
    /// Signed 16-bit integers.
    I16(Vec<i16>),
    /// Unsigned 32-bit integers.
    U32(Vec<u32>),
    /// Signed 32-bit integers.
    I32(Vec<i32>),
    /// IEEE 754 binary32 numbers.
    F32(Vec<f32>),
    /// Bytes that are 0 or 1.
    Bool(Vec<bool>),
    /// UTF-8 texts.
    String(Strings),
    /// Arrays, each with an element type of its own.
    Array(Vec<Array>),
    /// Unsigned 64-bit integers.
    U64(Vec<u64>),
    /// Signed 64-bit integers.
    I64(Vec<i64>),
    /// IEEE 754 binary64 numbers.
    F64(Vec<f64>),
}

/// Runs one expression for whichever vector an array holds.
macro_rules! each_array {
    ($array:expr, $values:ident => $body:expr) => {
        match $array {
            Array::U8($values) => $body,
            Array::I8($values) => $body,
            Array::U16($values) => $body,
            Array::I16($values) => $body,
            Array::U32($values) => $body,
            Array::I32($values) => $body,
            Array::F32($values) => $body,
            Array::Bool($values) => $body,
            Array::String($values) => $body,
            Array::Array($values) => $body,
            Array::U64($values) => $body,
            Array::I64($values) => $body,
            Array::F64($values) => $body,
        }
    };
}

/// Type number and name of a value and of the array of such values, and conversions into a value.
macro_rules! types {
    ($($variant:ident $name:literal $rust:ty),* $(,)?) => {
        impl Type {
            pub(crate) fn from_id(id: u32) -> Option<Type> {
                [$(Type::$variant),*].into_iter().find(|&kind| kind as u32 == id)
            }

            pub(crate) fn name(self) -> &'static str {
                match self { $(Type::$variant => $name),* }
            }
        }

        impl Value {
            pub(crate) fn kind(&self) -> Type {
                match self { $(Value::$variant(_) => Type::$variant),* }
            }
        }

        impl Array {
            pub(crate) fn element_kind(&self) -> Type {
                match self { $(Array::$variant(_) => Type::$variant),* }
            }
        }

        $(
            impl From<$rust> for Value {
                fn from(value: $rust) -> Value {
                    Value::$variant(value)
                }
            }

            impl From<Vec<$rust>> for Value {
                fn from(values: Vec<$rust>) -> Value {
                    Value::Array(Array::$variant(values.into()))
                }
            }
        )*
    };
}

types! {
    U8 "u8" u8, I8 "i8" i8, U16 "u16" u16, I16 "i16" i16, U32 "u32" u32, I32 "i32" i32, F32 "f32" f32,
    Bool "bool" bool, String "string" String, Array "array" Array, U64 "u64" u64, I64 "i64" i64, F64 "f64" f64,
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::String(text.to_owned())
    }
}

impl Value {
    /// An integer of any width; 128 bits hold them all.
    pub(crate) fn integer(&self) -> Option<i128> {
        match *self {
            Value::U8(x) => Some(x.into()),
            Value::I8(x) => Some(x.into()),
            Value::U16(x) => Some(x.into()),
            Value::I16(x) => Some(x.into()),
            Value::U32(x) => Some(x.into()),
            Value::I32(x) => Some(x.into()),
            Value::U64(x) => Some(x.into()),
            Value::I64(x) => Some(x.into()),
            _ => None,
        }
    }

    /// The type's name as errors and listings write it, for example `u32` or `array of string`.
    pub fn type_name(&self) -> String {
        match self {
            Value::Array(array) => array.type_name(),
            value => value.kind().name().to_owned(),
        }
    }
}

impl Array {
    /// The type's name, for example `array of string`.
    pub fn type_name(&self) -> String {
        format!("array of {}", self.element_kind().name())
    }

    /// How many elements it holds.
    pub fn len(&self) -> usize {
        each_array!(self, values => values.len())
    }

    /// Keeps the first `len` elements.
    pub fn truncate(&mut self, len: usize) {
        each_array!(self, values => values.truncate(len));
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
