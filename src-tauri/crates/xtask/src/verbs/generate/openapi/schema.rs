//! JSON Schemas (2020-12) of `wire` types, as their serde attributes read and write them.

use anyhow::{Context, bail};
use serde_json::{Map, Value, json};
use syn::{Expr, ExprLit, Fields, GenericArgument, Item, ItemEnum, Lit, PathArguments, PathSegment, Type, TypeArray};

use super::super::attributes::{Attributes, Tag};
use super::declarations::{Declarations, Declared};
use super::reference;

/// Whether the daemon reads or writes the JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Direction {
    Request,
    Response,
}

/// Schemas of types that implement serde by hand.
fn by_hand(name: &str) -> Option<Value> {
    Some(match name {
        "Timestamp" => json!({"type": "string", "format": "date-time"}),
        "KeepAlive" => json!({"anyOf": [
            {"type": "number", "description": "Seconds."},
            {"type": "string", "description": "A duration as in Go.",
             "pattern": r"^[-+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$"},
        ]}),
        "Think" => json!({"enum": [true, false, "low", "medium", "high", "max"]}),
        _ => return None,
    })
}

/// Where a type is declared and how it is used.
struct Scope<'a> {
    declarations: &'a Declarations,
    declared: &'a Declared,
    direction: Direction,
    /// The type parameters and their values.
    arguments: Vec<(String, Value)>,
}

impl Declarations {
    /// Returns the schema of a type.
    pub(super) fn schema(&self, name: &str, direction: Direction) -> anyhow::Result<Value> {
        self.schema_with(name, direction, &[])
    }

    fn schema_with(&self, name: &str, direction: Direction, arguments: &[Value]) -> anyhow::Result<Value> {
        let declared = self.get(name)?;
        let attributes = declared.attributes()?;
        let mut context = Scope { declarations: self, declared, direction, arguments: Vec::new() };
        let schema = match (by_hand(name), &declared.item) {
            (Some(schema), _) => schema,
            (None, Item::Type(item)) => context.of(&item.ty)?,
            (None, _) if !attributes.serialised => bail!("the type is not serialised"),
            (None, Item::Struct(item)) => {
                let parameters = item.generics.type_params().map(|parameter| parameter.ident.to_string());
                context.arguments = parameters.zip(arguments.iter().cloned()).collect();
                context.fields(&item.fields, &attributes, &[])?
            }
            (None, Item::Enum(item)) => context.choice(item, &attributes)?,
            (None, _) => bail!("only structs, enums and aliases are types"),
        };
        Ok(with_description(schema, &attributes))
    }
}

impl Scope<'_> {
    /// The schema of a field's type. Other `wire` types are references.
    fn of(&self, ty: &Type) -> anyhow::Result<Value> {
        if let Type::Array(TypeArray { elem, len: Expr::Lit(ExprLit { lit: Lit::Int(count), .. }), .. }) = ty {
            let count: u64 = count.base10_parse()?;
            return Ok(json!({"type": "array", "items": self.of(elem)?, "minItems": count, "maxItems": count}));
        }
        let Type::Path(path) = ty else { bail!("only named types are supported in wire types") };
        let segment = path.path.segments.last().context("a path has segments")?;
        let name = segment.ident.to_string();
        let arguments = arguments(segment);
        let inner = |at: usize| arguments.get(at).context("a type argument is missing").and_then(|ty| self.of(ty));
        if let Some((_, schema)) = self.arguments.iter().find(|(parameter, _)| *parameter == name) {
            return Ok(schema.clone());
        }
        let integer = |format: &str, minimum: Value, maximum: Value| json!({"type": "integer", "format": format, "minimum": minimum, "maximum": maximum});
        Ok(match &*name {
            "String" | "str" => json!({"type": "string"}),
            "bool" => json!({"type": "boolean"}),
            "u8" => integer("uint8", 0.into(), u8::MAX.into()),
            "u16" => integer("uint16", 0.into(), u16::MAX.into()),
            "u32" => integer("uint32", 0.into(), u32::MAX.into()),
            "u64" | "usize" => integer("uint64", 0.into(), u64::MAX.into()),
            "i32" => integer("int32", i32::MIN.into(), i32::MAX.into()),
            "i64" => integer("int64", i64::MIN.into(), i64::MAX.into()),
            "Duration" => integer("uint64", 0.into(), u64::MAX.into()),
            "f32" => json!({"type": "number", "format": "float"}),
            "f64" => json!({"type": "number", "format": "double"}),
            "Value" => json!({}),
            "Option" => nullable(inner(0)?),
            "Box" => inner(0)?,
            "Vec" => json!({"type": "array", "items": inner(0)?}),
            "Map" | "BTreeMap" | "HashMap" => match inner(1)? {
                Value::Object(any) if any.is_empty() => json!({"type": "object"}),
                values => json!({"type": "object", "additionalProperties": values}),
            },
            _ => {
                let name = self.declarations.resolve(self.declared, &name)?;
                if arguments.is_empty() {
                    return Ok(reference(&name));
                }
                let inner: Vec<Value> = arguments.iter().map(|ty| self.of(ty)).collect::<Result<_, _>>()?;
                self.declarations.schema_with(&name, self.direction, &inner)?
            }
        })
    }

    /// The schema of a struct or variant. `tag` is added to the fields.
    fn fields(&self, fields: &Fields, container: &Attributes, tag: &[(&str, &str)]) -> anyhow::Result<Value> {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for (name, value) in tag {
            properties.insert((*name).to_owned(), json!({"const": value}));
            required.push((*name).to_owned());
        }
        let mut parts = Vec::new();
        for field in fields {
            let of = Attributes::of(&field.attrs)?;
            let Some(ident) = &field.ident else {
                if fields.len() > 1 {
                    bail!("at most one field may be without a name");
                }
                parts.push(self.of(&field.ty)?);
                continue;
            };
            if of.flatten {
                parts.push(self.of(&field.ty)?);
                continue;
            }
            let name = of.name(&ident.to_string(), container.rename_all);
            let schema = self.of(&field.ty).with_context(|| name.clone())?;
            let (schema, is_required) = self.field(schema, &field.ty, &of, container);
            if is_required {
                required.push(name.clone());
            }
            properties.insert(name, with_description(schema, &of));
        }
        if matches!(fields, Fields::Unnamed(_)) && tag.is_empty() {
            return parts.pop().context("a tuple has a field");
        }
        let mut object = json!({"type": "object"});
        if !properties.is_empty() {
            object["properties"] = properties.into();
        }
        if !required.is_empty() {
            object["required"] = required.into();
        }
        if container.deny_unknown_fields && self.direction == Direction::Request {
            object["additionalProperties"] = false.into();
        }
        if parts.is_empty() {
            return Ok(object);
        }
        if object.get("properties").is_some() {
            parts.insert(0, object);
        }
        Ok(json!({"allOf": parts}))
    }

    /// The schema of a field in an object, and whether the object must have it.
    fn field(&self, schema: Value, ty: &Type, of: &Attributes, container: &Attributes) -> (Value, bool) {
        match self.direction {
            Direction::Request => {
                let reads_null = of.deserialize_with.as_deref().is_some_and(|with| with.ends_with("null_is_empty"));
                let schema = if reads_null { nullable(schema) } else { schema };
                (schema, !of.default && !container.default && !is_option(ty))
            }
            // An omitted option is never null.
            Direction::Response if of.skipped && is_option(ty) => {
                let schema = option_argument(ty).and_then(|ty| self.of(ty).ok()).unwrap_or(schema);
                (schema, false)
            }
            Direction::Response => (schema, !of.skipped),
        }
    }

    fn choice(&self, item: &ItemEnum, attributes: &Attributes) -> anyhow::Result<Value> {
        let mut words = Vec::new();
        let mut schemas = Vec::new();
        for variant in &item.variants {
            let of = Attributes::of(&variant.attrs)?;
            let word = of.name(&variant.ident.to_string(), attributes.rename_all);
            let inner = Attributes { rename_all: of.rename_all, ..Attributes::default() };
            let schema = match (&attributes.tag, &variant.fields) {
                (Tag::External, Fields::Unit) => {
                    words.push(word.clone());
                    json!({"const": word})
                }
                (Tag::External, fields) => {
                    let mut properties = Map::new();
                    properties.insert(word.clone(), self.fields(fields, &inner, &[])?);
                    json!({
                        "type": "object", "properties": properties, "required": [word], "additionalProperties": false
                    })
                }
                (Tag::Untagged, Fields::Unit) => json!({"type": "null"}),
                (Tag::Untagged, fields) => self.fields(fields, &inner, &[])?,
                (Tag::Internal(tag), fields) => self.fields(fields, &inner, &[(tag, &word)])?,
            };
            schemas.push(with_description(schema, &of));
        }
        if words.len() == schemas.len() {
            return Ok(json!({"type": "string", "enum": words}));
        }
        let key = if attributes.tag == Tag::Untagged { "anyOf" } else { "oneOf" };
        Ok(json!({key: schemas}))
    }
}

/// A schema that accepts null too.
fn nullable(schema: Value) -> Value {
    match &schema {
        Value::Object(any) if any.is_empty() => schema,
        Value::Object(fields) => match fields.get("type") {
            Some(Value::String(ty)) if !fields.contains_key("enum") => {
                let mut fields = fields.clone();
                fields.insert("type".to_owned(), json!([ty, "null"]));
                fields.into()
            }
            Some(Value::Array(_)) => schema,
            _ => json!({"anyOf": [schema, {"type": "null"}]}),
        },
        _ => schema,
    }
}

/// Adds the comment. Links of Rust's documentation are plain names in it.
fn with_description(mut schema: Value, attributes: &Attributes) -> Value {
    let lines: Vec<&str> = attributes.doc.iter().map(|line| line.trim()).collect();
    let text = lines.join("\n").replace("[`", "`").replace("`]", "`");
    if !text.is_empty() {
        schema["description"] = text.into();
    }
    schema
}

fn is_option(ty: &Type) -> bool {
    option_argument(ty).is_some()
}

/// The inner type of an `Option`.
fn option_argument(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = ty else { return None };
    let segment = path.path.segments.last().filter(|segment| segment.ident == "Option")?;
    arguments(segment).into_iter().next()
}

fn arguments(segment: &PathSegment) -> Vec<&Type> {
    let PathArguments::AngleBracketed(list) = &segment.arguments else { return Vec::new() };
    let types = list.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    });
    types.collect()
}
