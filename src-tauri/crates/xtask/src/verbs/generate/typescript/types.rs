//! TypeScript for the types of fields.

use anyhow::{Context, bail};
use syn::{Expr, ExprLit, GenericArgument, Lit, PathArguments, PathSegment, Type, TypeArray};

/// A Rust type in TypeScript. Wire types keep their names.
pub(super) fn typescript(ty: &Type) -> anyhow::Result<String> {
    if let Type::Array(TypeArray { elem, len: Expr::Lit(ExprLit { lit: Lit::Int(count), .. }), .. }) = ty {
        return Ok(format!("[{}]", vec![typescript(elem)?; count.base10_parse()?].join(", ")));
    }
    let segment = last(ty)?;
    let name = segment.ident.to_string();
    let arguments = arguments(segment);
    let inner = |at: usize| arguments.get(at).context("a type argument is missing").and_then(|ty| typescript(ty));
    Ok(match &*name {
        "String" | "str" => "string".to_owned(),
        "bool" => "boolean".to_owned(),
        "u8" | "u16" | "u32" | "u64" | "usize" | "i8" | "i16" | "i32" | "i64" | "f32" | "f64" | "Duration" => {
            "number".to_owned()
        }
        "Value" => "unknown".to_owned(),
        "Option" => format!("{} | null", inner(0)?),
        "Box" => inner(0)?,
        "Vec" => {
            let item = inner(0)?;
            if item.contains(" | ") { format!("({item})[]") } else { format!("{item}[]") }
        }
        "Map" | "BTreeMap" | "HashMap" => format!("Record<string, {}>", inner(1)?),
        _ if arguments.is_empty() => name,
        _ => {
            let inner: Vec<String> = arguments.iter().map(|ty| typescript(ty)).collect::<Result<_, _>>()?;
            format!("{name}<{}>", inner.join(", "))
        }
    })
}

/// The inner type of an `Option`, for optional fields. Other types are converted as they are.
pub(super) fn inside_option(ty: &Type) -> anyhow::Result<String> {
    if !is_option(ty) {
        return typescript(ty);
    }
    typescript(arguments(last(ty)?).first().context("`Option` needs a type argument")?)
}

pub(super) fn is_option(ty: &Type) -> bool {
    last(ty).is_ok_and(|segment| segment.ident == "Option")
}

fn last(ty: &Type) -> anyhow::Result<&PathSegment> {
    match ty {
        Type::Path(path) => path.path.segments.last().context("a path has segments"),
        _ => bail!("only named types are supported in wire types"),
    }
}

fn arguments(segment: &PathSegment) -> Vec<&Type> {
    match &segment.arguments {
        PathArguments::AngleBracketed(list) => list
            .args
            .iter()
            .filter_map(|argument| match argument {
                GenericArgument::Type(ty) => Some(ty),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    }
}
