//! The Jinja engine `minijinja`, configured as `transformers` configures Jinja2, with bounded memory.
//!
//! A template is compiled to the engine's bytecode, which is then rewritten: operators become calls of
//! [`super::operators`], new and returned values are checked, and text between tags is charged like printed values.
//!
//! The bytecode is unstable API, so `minijinja` is pinned. With public API only (3.0.5, 5 M fuel, depth 100, output
//! limit 16 MiB), `t ~ t`, `t + t`, `[t, t] | join` and `{% set %}` in a loop of 99 turns fail at 4 GiB;
//! `t.replace('a', t)` takes 2.6 GiB and `'%999999999d' | format(1)` 1.9 GiB; `x + x` and `x | string` on lists run
//! over 20 s; 200,000 nested lists overflow the stack. 3.1.0 charges texts to the fuel, but `x + x` and nested lists
//! remain. A child process could bound these, but operators would still differ from Python: `none ~ true` prints
//! `nonetrue`.

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

/// Maximum number of instructions. The longest published templates take a few thousand for a long conversation.
const MAX_STEPS: u64 = 5_000_000;
/// Maximum depth of nested macro and block calls. Each takes about 1 KiB of stack.
const MAX_DEPTH: usize = 100;
/// Maximum number of operators, brackets and names in one tag. Published templates have at most 62, including literals
/// and commas. The engine parses a chain of operators in a loop but walks its tree by recursion, so depth equals
/// length.
const MAX_TAG_TOKENS: usize = 1000;
/// Maximum number of `elif` branches in a template, which nest in the same way. Published ones have at most 20.
const MAX_BRANCHES: usize = 200;
/// Name of the template in errors.
const NAME: &str = "chat";

/// Message of `raise_exception`. The type distinguishes it from engine errors.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Refusal(pub(super) String);

fn syntax() -> SyntaxConfig {
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    syntax.expect("the delimiters are the default ones")
}

/// Creates an environment as `transformers` configures Jinja2.
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
    environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, "refused").with_source(Refusal(message)))
    });
    environment
}

/// Renders a template that [`preprocess`] returned. Returns `None` if the engine panicked, which a template can trigger
/// by bugs of the engine.
///
/// # Errors
/// Those of the engine.
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
    // A panic drops all state that it could have left inconsistent.
    panic::catch_unwind(AssertUnwindSafe(run)).ok()
}

/// Instructions of a template, and of its blocks by name.
type Compiled<'source> = (Instructions<'source>, BTreeMap<&'source str, Instructions<'source>>);

fn compile(source: &str) -> Result<Compiled<'_>, Error> {
    let tree = parse(source, NAME, syntax())?;
    let mut generator = CodeGenerator::new(NAME, source);
    generator.compile_stmt(&tree);
    let (instructions, blocks) = generator.finish();
    for part in std::iter::once(&instructions).chain(blocks.values()) {
        if (0..).map_while(|index| part.get(index)).any(|step| matches!(step, Instruction::CallMethod("changed", None)))
        {
            return Err(Error::new(ErrorKind::InvalidOperation, "`loop.changed` does not take unpacked arguments"));
        }
    }
    let blocks = blocks.into_iter().map(|(name, block)| (name, rewrite(&block, source)));
    Ok((rewrite(&instructions, source), blocks.collect()))
}

/// Returns the replacement of one instruction.
fn replacement(instruction: Instruction<'_>) -> Vec<Instruction<'_>> {
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
        // Both operands are read: a character of a text is found from its begin.
        Instruction::GetItem => {
            vec![call("(text)", 1), Instruction::Swap, call("(text)", 1), Instruction::Swap, Instruction::GetItem]
        }
        // The comparison of a chain such as `a < b < c`.
        compared @ Instruction::CompareAndPreserve(_) => {
            vec![call("(read)", 1), Instruction::Swap, call("(read)", 1), Instruction::Swap, compared]
        }
        // `loop.changed` compares its arguments with those of the last turn. A tuple of them is equal to them.
        Instruction::CallMethod("changed", Some(values @ 2..)) => vec![
            Instruction::BuildTuple(Some(values as usize - 1)),
            call("(read)", 1),
            Instruction::CallMethod("changed", Some(2)),
        ],
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

/// Replaces instructions and adjusts the targets of jumps.
fn rewrite<'source>(old: &Instructions<'source>, source: &'source str) -> Instructions<'source> {
    let all = || (0..).map_while(|index| Some((index, old.get(index)?)));
    let mut starts = Vec::new();
    let mut next = 0;
    for (_, instruction) in all() {
        starts.push(next);
        next += replacement(instruction.clone()).len() as u32;
    }
    let relocated = |target: u32| starts.get(target as usize).copied().unwrap_or(next);
    let mut new = Instructions::new(NAME, source);
    for (index, instruction) in all() {
        for step in replacement(instruction.clone()) {
            let step = match step {
                Instruction::Iterate(target) => Instruction::Iterate(relocated(target)),
                Instruction::Jump(target) => Instruction::Jump(relocated(target)),
                Instruction::JumpIfFalse(target) => Instruction::JumpIfFalse(relocated(target)),
                Instruction::JumpIfFalseOrPop(target) => Instruction::JumpIfFalseOrPop(relocated(target)),
                Instruction::JumpIfTrueOrPop(target) => Instruction::JumpIfTrueOrPop(relocated(target)),
                Instruction::BuildMacro(name, target, flags) => Instruction::BuildMacro(name, relocated(target), flags),
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

/// Removes generation marks and products of constants from a template, and compiles it once. Returns `None` if the
/// engine panicked.
///
/// # Errors
/// Those of the engine if the source is not valid Jinja.
pub(super) fn preprocess(source: &str) -> Option<Result<String, Error>> {
    let preprocessed = || {
        let plain = replace_generation_marks(source);
        check_chains(&plain)?;
        let source = without_constant_products(&plain)?;
        compile(&source)?;
        Ok(source)
    };
    panic::catch_unwind(AssertUnwindSafe(preprocessed)).ok()
}

/// Replaces `{% generation %}` and `{% endgeneration %}`, which mark the assistant's text for training, by
/// `{% if true %}` and `{% endif %}`, so that white space around them is trimmed as before.
fn replace_generation_marks(source: &str) -> String {
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

/// Rejects chains that nest too deeply without brackets. The engine itself limits brackets.
fn check_chains(source: &str) -> Result<(), Error> {
    let (mut tokens, mut branches) = (0, 0);
    for token in tokenize(source, false, syntax()) {
        match token?.0 {
            Token::VariableStart | Token::BlockStart => tokens = 0,
            // Elements of a list do not nest.
            Token::Comma | Token::Colon | Token::Str(_) | Token::String(_) | Token::Int(_) | Token::Float(_) => {}
            Token::Ident("elif") => branches += 1,
            // `without_constant_products` adds a factor to each product.
            Token::Mul => tokens += 2,
            _ => tokens += 1,
        }
        if tokens > MAX_TAG_TOKENS || branches > MAX_BRANCHES {
            return Err(exceeded("depth"));
        }
    }
    Ok(())
}

/// Name of the global variable with the value 1.
const ONE: &str = "__one__";

/// Adds a variable factor of 1 to every product. The engine evaluates constant expressions such as `"a" * 100000000` at
/// compile time, before a budget exists; a variable defers the evaluation.
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
