//! The template engine: set up as `transformers` sets up Jinja2, and bounded.
//!
//! A template is compiled to the engine's bytecode, which is then rewritten: operators that can multiply memory become calls of
//! our own functions, what is built or returned is checked, and text between tags is printed through the same function as
//! values. The bytecode is the engine's own affair, so its version is pinned exactly.

use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};

use minijinja::machinery::{
    CodeGenerator, Instruction, Instructions, Token, eval, make_string_output, parse, tokenize,
};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value;
use minijinja::{AutoEscape, Environment, Error, ErrorKind};

use super::budget::{charge_printed, exceeded};
use super::{filters, operators, python};

/// Steps of the template engine: the longest published templates take a few thousand for a long conversation.
const MAX_STEPS: u64 = 5_000_000;
/// Nested calls of macros and blocks; each takes about a kilobyte of stack.
const MAX_DEPTH: usize = 100;
/// Operators, brackets and names in one tag; published templates have 62 at most, literals and commas included. The engine reads a
/// chain of operators in a loop, but walks what it built by recursion, and so a tag could be as deep as it is long.
const MAX_TAG_TOKENS: usize = 1000;
/// Branches of conditions in a template, which are nested in the same way; published ones have 20 at most.
const MAX_BRANCHES: usize = 200;
/// The name under which errors speak of the template.
const NAME: &str = "chat";

/// The words of `raise_exception`, told apart from the engine's own errors by their type.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Refusal(pub(super) String);

fn syntax() -> SyntaxConfig {
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    syntax.expect("the delimiters are the default ones")
}

/// An engine set up as `transformers` sets up Jinja2.
pub(super) fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_syntax(syntax());
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_fuel(Some(MAX_STEPS));
    environment.set_recursion_limit(MAX_DEPTH);
    environment.set_formatter(|out, state, value| {
        let text = python::text(value)?;
        charge_printed(state, text.len())?;
        out.write_str(&text).map_err(Error::from)
    });
    filters::add_to(&mut environment);
    operators::add_to(&mut environment);
    operators::add_checks_to(&mut environment);
    environment.add_global(ONE, Value::from(1));
    environment.add_function("raise_exception", |words: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, "refused").with_source(Refusal(words)))
    });
    environment
}

/// Renders a template, as [`readable`] gives it.
///
/// # Errors
/// Those of the engine, and none where it panicked: it has bugs of its own, which a template can reach.
pub(super) fn render(
    environment: &Environment<'static>,
    source: &str,
    variables: Value,
) -> Option<Result<String, Error>> {
    let run = || {
        let (instructions, blocks) = compile(source)?;
        let mut text = String::new();
        let mut output = make_string_output(&mut text);
        eval(environment, &instructions, variables, &blocks, &mut output, AutoEscape::None)?;
        drop(output);
        Ok(text)
    };
    // State that a panic could leave half changed is dropped here with it.
    panic::catch_unwind(AssertUnwindSafe(run)).ok()
}

/// A template's instructions, and those of its blocks by name.
type Compiled<'source> = (Instructions<'source>, BTreeMap<&'source str, Instructions<'source>>);

fn compile(source: &str) -> Result<Compiled<'_>, Error> {
    let tree = parse(source, NAME, syntax())?;
    let mut generator = CodeGenerator::new(NAME, source);
    generator.compile_stmt(&tree);
    let (instructions, blocks) = generator.finish();
    let blocks = blocks.into_iter().map(|(name, block)| (name, rewritten(&block, source)));
    Ok((rewritten(&instructions, source), blocks.collect()))
}

/// What one instruction becomes.
fn steps(instruction: Instruction<'_>) -> Vec<Instruction<'_>> {
    let call = |name, arguments| Instruction::CallFunction(name, Some(arguments));
    match instruction {
        Instruction::Add => vec![call("+", 2)],
        Instruction::Mul => vec![call("*", 2)],
        Instruction::StringConcat => vec![call("~", 2)],
        Instruction::Slice => vec![call("[:]", 4)],
        Instruction::Eq => vec![call("==", 2)],
        Instruction::Ne => vec![call("!=", 2)],
        Instruction::Lt => vec![call("<", 2)],
        Instruction::Lte => vec![call("<=", 2)],
        Instruction::Gt => vec![call(">", 2)],
        Instruction::Gte => vec![call(">=", 2)],
        Instruction::In => vec![call("in", 2)],
        Instruction::EmitRaw(text) => vec![Instruction::LoadConst(Value::from(text)), Instruction::Emit],
        built @ (Instruction::BuildList(_)
        | Instruction::BuildTuple(_)
        | Instruction::BuildMap(_)
        | Instruction::BuildKwargs(_)
        | Instruction::MergeKwargs(_)) => vec![built, call("(built)", 1)],
        called @ (Instruction::ApplyFilter(..)
        | Instruction::CallFunction(..)
        | Instruction::CallMethod(..)
        | Instruction::CallObject(_)) => vec![called, call("(returned)", 1)],
        other => vec![other],
    }
}

/// The bytecode with our own steps in it, and its jumps where they led before.
fn rewritten<'source>(old: &Instructions<'source>, source: &'source str) -> Instructions<'source> {
    let all = || (0..).map_while(|index| Some((index, old.get(index)?)));
    let mut starts = Vec::new();
    let mut next = 0;
    for (_, instruction) in all() {
        starts.push(next);
        next += steps(instruction.clone()).len() as u32;
    }
    let moved = |target: u32| starts.get(target as usize).copied().unwrap_or(next);
    let mut new = Instructions::new(NAME, source);
    for (index, instruction) in all() {
        for step in steps(instruction.clone()) {
            let step = match step {
                Instruction::Iterate(target) => Instruction::Iterate(moved(target)),
                Instruction::Jump(target) => Instruction::Jump(moved(target)),
                Instruction::JumpIfFalse(target) => Instruction::JumpIfFalse(moved(target)),
                Instruction::JumpIfFalseOrPop(target) => Instruction::JumpIfFalseOrPop(moved(target)),
                Instruction::JumpIfTrueOrPop(target) => Instruction::JumpIfTrueOrPop(moved(target)),
                Instruction::BuildMacro(name, target, flags) => Instruction::BuildMacro(name, moved(target), flags),
                other => other,
            };
            match (old.get_span(index), old.get_line(index)) {
                (Some(span), _) => new.add_with_span(step, span),
                (None, Some(line)) => new.add_with_line(step, line as u16),
                (None, None) => new.add(step),
            };
        }
    }
    new
}

/// The template as the engine is to read it: without marks that it does not know, and without products of constants.
///
/// # Errors
/// Those of the engine where it is not valid Jinja, and none where the engine panicked.
pub(super) fn readable(source: &str) -> Option<Result<String, Error>> {
    let read = || {
        let plain = without_generation_marks(source);
        check_chains(&plain)?;
        let readable = without_constant_products(&plain)?;
        compile(&readable)?;
        Ok(readable)
    };
    panic::catch_unwind(AssertUnwindSafe(read)).ok()
}

/// The template without `{% generation %}` and `{% endgeneration %}`, which mark the assistant's words for training. They are
/// made conditions that always hold, so that the white space around them is treated as before.
fn without_generation_marks(source: &str) -> String {
    let mut plain = String::with_capacity(source.len());
    let mut rest = source;
    while let Some((before, after)) = rest.split_once("{%") {
        plain.push_str(before);
        plain.push_str("{%");
        let sign = after.len() - after.trim_start_matches(['-', '+']).len();
        let space = after.get(sign..).map_or(0, |inner| inner.len() - inner.trim_start().len());
        let (lead, inner) = after.split_at_checked(sign + space).unwrap_or(("", after));
        let word = inner.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap_or_default();
        let becomes = match word {
            "generation" => "if true",
            "endgeneration" => "endif",
            word => word,
        };
        plain.push_str(lead);
        plain.push_str(becomes);
        rest = inner.get(word.len()..).unwrap_or_default();
    }
    plain.push_str(rest);
    plain
}

/// Refuses what would be nested too deeply without brackets, which the engine counts itself.
fn check_chains(source: &str) -> Result<(), Error> {
    let (mut tokens, mut branches) = (0, 0);
    for token in tokenize(source, false, syntax()) {
        match token?.0 {
            Token::VariableStart | Token::BlockStart => tokens = 0,
            // Parts of a list lie beside each other.
            Token::Comma | Token::Colon | Token::Str(_) | Token::String(_) | Token::Int(_) | Token::Float(_) => {}
            Token::Ident("elif") => branches += 1,
            // Another factor is added to each product.
            Token::Mul => tokens += 2,
            _ => tokens += 1,
        }
        if tokens > MAX_TAG_TOKENS || branches > MAX_BRANCHES {
            return Err(exceeded("depth"));
        }
    }
    Ok(())
}

/// A factor of one.
const ONE: &str = "__one__";

/// The template with a further factor in every product. The engine computes constant expressions while it compiles, before any
/// budget exists, and `"a" * 100000000` is one; a variable in it keeps it for later.
fn without_constant_products(source: &str) -> Result<String, Error> {
    let mut plain = String::with_capacity(source.len());
    let mut copied = 0;
    for token in tokenize(source, false, syntax()) {
        let (token, span) = token?;
        if let (Token::Mul, Some(before)) = (token, source.get(copied..span.start_offset as usize)) {
            plain.push_str(before);
            plain.push_str(&format!("*{ONE}"));
            copied = span.start_offset as usize;
        }
    }
    plain.push_str(source.get(copied..).unwrap_or_default());
    Ok(plain)
}
