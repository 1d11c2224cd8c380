//! Execution of a template's syntax tree on typed values.
//!
//! The rules are those of Go: what a field, a call or a loop does depends on the type of its value, and `nil` differs
//! from no value.
//!
//! Spec: <https://pkg.go.dev/text/template>.

use std::collections::BTreeMap;

use gotmpl::parse::{BranchNode, CommandNode, Expr, ListNode, Node, Number, PipeNode, SmolStr, TemplateNode};

use super::super::Error;
use super::super::local_time::LocalTime;
use super::budget::{Budget, MAX_DEPTH, MAX_OUTPUT_BYTES};
use super::format;
use super::functions::{self, Failure, Functions, Parameter};
use super::number;
use super::values::{Struct, Value};

/// How a list of nodes ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Continue,
}

type Result<T> = std::result::Result<T, Error>;

/// State of one rendering, which may run templates many times.
#[derive(Debug)]
pub(super) struct Run<'a> {
    defined: &'a BTreeMap<String, ListNode>,
    /// Whether a missing key of a map has the zero value of its type, not no value.
    missing_is_zero: bool,
    now: LocalTime,
    budget: Budget,
    /// Variables of all templates that run, innermost last.
    variables: Vec<(&'a str, Value<'a>)>,
    /// Index of the first variable of the current template.
    first_variable: usize,
    depth: usize,
    /// Line of the current node.
    line: usize,
    output: Vec<u8>,
}

impl<'a> Run<'a> {
    pub(super) fn new(defined: &'a BTreeMap<String, ListNode>, now: LocalTime) -> Self {
        Self {
            defined,
            missing_is_zero: true,
            now,
            budget: Budget::default(),
            variables: Vec::new(),
            first_variable: 0,
            depth: 0,
            line: 1,
            output: Vec::new(),
        }
    }

    /// Runs a tree and appends its output. With `missing_is_zero`, a missing key has the zero value of its map.
    pub(super) fn template(&mut self, list: &'a ListNode, data: &Value<'a>, missing_is_zero: bool) -> Result<()> {
        self.missing_is_zero = missing_is_zero;
        self.scope(data, list)
    }

    /// Returns the output. Every byte that is not UTF-8 becomes U+FFFD.
    pub(super) fn into_text(self) -> String {
        String::from_utf8(self.output).unwrap_or_else(|error| {
            let letters = number::letters(error.as_bytes());
            letters.map(|(_, letter)| letter.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
        })
    }

    /// Runs a tree with variables of its own.
    fn scope(&mut self, data: &Value<'a>, list: &'a ListNode) -> Result<()> {
        let (first, count) = (self.first_variable, self.variables.len());
        self.first_variable = count;
        self.variables.push(("$", data.clone()));
        self.list(data, list)?;
        self.variables.truncate(count);
        self.first_variable = first;
        Ok(())
    }

    fn failed<T>(&self, what: impl std::fmt::Display) -> Result<T> {
        Err(Error::Failed { reason: format!("line {}: {what}", self.line) })
    }

    /// Charges a level of nesting until [`Self::leave`]. Errors end the rendering, so they need not leave.
    fn enter(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(Error::TooLarge { what: "depth" }) } else { Ok(()) }
    }

    fn leave(&mut self) {
        self.depth -= 1;
    }

    fn list(&mut self, dot: &Value<'a>, list: &'a ListNode) -> Result<Flow> {
        self.enter()?;
        let mut flow = Flow::Next;
        for node in &list.nodes {
            flow = self.node(dot, node)?;
            if flow != Flow::Next {
                break;
            }
        }
        self.leave();
        Ok(flow)
    }

    fn node(&mut self, dot: &Value<'a>, node: &'a Node) -> Result<Flow> {
        self.budget.steps(1)?;
        match node {
            Node::Text(text) => self.write(text.text.as_bytes())?,
            Node::Action(action) => {
                let value = self.pipeline(dot, &action.pipe)?;
                if action.pipe.decl.is_empty() {
                    self.print(&value)?;
                }
            }
            Node::List(list) => return self.list(dot, list),
            Node::If(branch) => return self.branch(dot, branch, false),
            Node::With(branch) => return self.branch(dot, branch, true),
            Node::Range(branch) => return self.range(dot, branch),
            Node::Template(call) => self.call_template(dot, call)?,
            Node::Break(_) => return Ok(Flow::Break),
            Node::Continue(_) => return Ok(Flow::Continue),
            Node::Define(_) => {}
        }
        Ok(Flow::Next)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if self.output.len() + bytes.len() > MAX_OUTPUT_BYTES {
            return Err(Error::TooLarge { what: "output" });
        }
        self.output.extend(bytes);
        Ok(())
    }

    fn print(&mut self, value: &Value<'a>) -> Result<()> {
        if let Value::Text(text) = value {
            return self.write(text.bytes());
        }
        let mut text = Vec::new();
        self.budget.text(format::size(value))?;
        format::print(&mut text, value, false);
        self.write(&text)
    }

    /// Runs an `if` or a `with`.
    fn branch(&mut self, dot: &Value<'a>, branch: &'a BranchNode, is_with: bool) -> Result<Flow> {
        let count = self.variables.len();
        let value = self.pipeline(dot, &branch.pipe)?;
        let flow = match (value.is_true(), &branch.else_body) {
            (true, _) => self.list(if is_with { &value } else { dot }, &branch.body)?,
            (false, Some(other)) => self.list(dot, other)?,
            (false, None) => Flow::Next,
        };
        self.variables.truncate(count);
        Ok(flow)
    }

    fn range(&mut self, dot: &Value<'a>, branch: &'a BranchNode) -> Result<Flow> {
        let count = self.variables.len();
        let value = self.pipeline(dot, &branch.pipe)?;
        if branch.pipe.decl.len() > 1 && matches!(value, Value::Int(_) | Value::Byte(_)) {
            return self.failed("a number has no keys, so the loop can have one variable only");
        }
        let turns = match &value {
            Value::Int(number) => self.turns(branch, (0..*number).map(|number| (Value::None, Value::Int(number))))?,
            Value::Byte(number) => self.turns(branch, (0..*number).map(|number| (Value::None, Value::Byte(number))))?,
            Value::List(list) => {
                let index = |index| Value::Int(i64::try_from(index).unwrap_or(i64::MAX));
                self.turns(branch, list.items.iter().enumerate().map(|(at, item)| (index(at), item)))?
            }
            Value::Map(map) => {
                self.turns(branch, map.entries().into_iter().map(|(key, item)| (Value::from(key), item)))?
            }
            Value::None | Value::Nil | Value::Struct(Struct::NestedProperties(None)) => 0,
            other => return self.failed(format_args!("range cannot iterate over {}", other.type_name())),
        };
        let flow = match &branch.else_body {
            Some(other) if turns == 0 => self.list(dot, other)?,
            _ => Flow::Next,
        };
        self.variables.truncate(count);
        Ok(flow)
    }

    /// Runs the body of a loop for every key and item. Returns the number of turns.
    fn turns(&mut self, branch: &'a BranchNode, items: impl Iterator<Item = (Value<'a>, Value<'a>)>) -> Result<usize> {
        let count = self.variables.len();
        let names = &branch.pipe.decl;
        let mut turns = 0;
        for (key, item) in items {
            self.budget.steps(1)?;
            turns += 1;
            let values = if names.len() > 1 { vec![key, item.clone()] } else { vec![item.clone()] };
            for (at, (name, value)) in names.iter().zip(values).enumerate() {
                if branch.pipe.is_assign {
                    self.assign(name, value)?;
                } else if let Some(variable) = self.variables.get_mut(count - names.len() + at) {
                    variable.1 = value;
                }
            }
            let flow = self.list(&item, &branch.body)?;
            self.variables.truncate(count);
            if flow == Flow::Break {
                break;
            }
        }
        Ok(turns)
    }

    fn call_template(&mut self, dot: &Value<'a>, call: &'a TemplateNode) -> Result<()> {
        self.line = call.pos.line;
        let Some(list) = self.defined.get(&*call.name) else {
            return self.failed(format_args!("there is no template {:?}", call.name.as_str()));
        };
        let data = match &call.pipe {
            Some(pipe) => self.pipeline(dot, pipe)?,
            None => Value::None,
        };
        self.scope(&data, list)
    }

    fn variable(&self, name: &str) -> Result<Value<'a>> {
        let variables = self.variables.get(self.first_variable..).unwrap_or_default();
        match variables.iter().rev().find(|(other, _)| *other == name) {
            Some((_, value)) => Ok(value.clone()),
            None => self.failed(format_args!("there is no variable {name}")),
        }
    }

    fn assign(&mut self, name: &str, value: Value<'a>) -> Result<()> {
        let variables = self.variables.get_mut(self.first_variable..).unwrap_or_default();
        match variables.iter_mut().rev().find(|(other, _)| *other == name) {
            Some(variable) => variable.1 = value,
            None => return self.failed(format_args!("there is no variable {name}")),
        }
        Ok(())
    }

    fn pipeline(&mut self, dot: &Value<'a>, pipe: &'a PipeNode) -> Result<Value<'a>> {
        self.enter()?;
        self.line = pipe.pos.line;
        let mut value: Option<Value<'a>> = None;
        for command in &pipe.commands {
            value = Some(self.command(dot, command, value)?.without_any());
        }
        let value = value.unwrap_or(Value::None);
        for name in &pipe.decl {
            if pipe.is_assign {
                self.assign(name, value.clone())?;
            } else {
                self.variables.push((name, value.clone()));
            }
        }
        self.leave();
        Ok(value)
    }

    /// Evaluates a command. `last` is the result of the previous one, its last argument.
    fn command(&mut self, dot: &Value<'a>, command: &'a CommandNode, last: Option<Value<'a>>) -> Result<Value<'a>> {
        let Some((first, arguments)) = command.args.split_first() else { return Ok(Value::None) };
        if let Expr::Identifier(_, name) = first {
            return self.call(dot, name, arguments, last);
        }
        let has_arguments = !arguments.is_empty() || last.is_some();
        // Of the values, only a method accepts arguments, and the methods here have none.
        if has_arguments {
            self.line = first.pos().line;
            return self.failed("only a function accepts arguments");
        }
        match first {
            Expr::Nil(_) => self.failed("nil is not a command"),
            first => self.operand(dot, first),
        }
    }

    /// Evaluates an expression that is not `nil`.
    fn operand(&mut self, dot: &Value<'a>, expression: &'a Expr) -> Result<Value<'a>> {
        self.budget.steps(1)?;
        self.line = expression.pos().line;
        Ok(match expression {
            Expr::Dot(_) => dot.clone(),
            Expr::Field(_, names) => self.fields(dot.clone(), names)?,
            Expr::Variable(_, name, names) => {
                let value = self.variable(name)?;
                self.fields(value, names)?
            }
            Expr::Identifier(_, name) => self.call(dot, name, &[], None)?,
            Expr::String(_, text) => Value::from(&**text),
            Expr::Number(_, Number::Int(number)) => Value::Int(*number),
            Expr::Number(_, Number::Uint(number)) => return self.failed(format_args!("{number} is too large")),
            Expr::Number(_, Number::Float(number)) => Value::Float(*number),
            Expr::Bool(_, truth) => Value::Bool(*truth),
            Expr::Nil(_) => Value::None,
            Expr::Pipe(_, pipe) => self.pipeline(dot, pipe)?,
            Expr::Chain(_, inner, names) => {
                let value = match &**inner {
                    Expr::Nil(_) => return self.failed("nil has no fields"),
                    inner => self.operand(dot, inner)?,
                };
                self.fields(value, names)?
            }
        })
    }

    fn fields(&mut self, mut value: Value<'a>, names: &[SmolStr]) -> Result<Value<'a>> {
        self.budget.steps(names.len() as u64)?;
        for name in names {
            value = self.field(&value, name)?;
        }
        Ok(value)
    }

    /// Returns a field, the entry of a map, or the result of a method.
    fn field(&self, value: &Value<'a>, name: &str) -> Result<Value<'a>> {
        let missing = |what: &str| self.failed(format_args!("{what} has no field {name}"));
        let method = match (name, value) {
            ("String", value) => {
                self.budget.text(format::size(value).saturating_mul(super::json::GROWTH))?;
                format::string_method(value).map(Value::from)
            }
            ("ToTypeScriptType", Value::Struct(Struct::Property(property))) => Some(property.typescript().into()),
            ("Len", Value::Struct(Struct::NestedProperties(properties))) => {
                Some(Value::Int(i64::try_from(properties.map_or(0, <[_]>::len)).unwrap_or(i64::MAX)))
            }
            _ => None,
        };
        if let Some(result) = method {
            return Ok(result);
        }
        match value {
            Value::None => Ok(Value::None),
            Value::Nil => missing("nil"),
            Value::Map(map) => Ok(match map.get(name) {
                Some(value) => value,
                None if self.missing_is_zero => map.zero(),
                None => Value::None,
            }),
            Value::Struct(object) => match object.field(name) {
                Some(value) => Ok(value),
                None => missing(value.type_name()),
            },
            other => missing(other.type_name()),
        }
    }

    fn call(
        &mut self,
        dot: &Value<'a>,
        name: &str,
        arguments: &'a [Expr],
        last: Option<Value<'a>>,
    ) -> Result<Value<'a>> {
        let Some(signature) = functions::signature(name) else {
            return self.failed(format_args!("there is no function {name:?}"));
        };
        let count = arguments.len() + usize::from(last.is_some());
        let fixed = signature.fixed.len();
        if count < fixed || count > fixed && signature.further.is_none() {
            let least = if signature.further.is_some() { "at least " } else { "" };
            return self.failed(format_args!("{name} needs {least}{fixed} arguments, not {count}"));
        }
        let further = signature.further.unwrap_or(Parameter::Value);
        let mut types = signature.fixed.iter().copied().chain(std::iter::repeat(further));
        let mut values = Vec::with_capacity(count);
        for (argument, parameter) in arguments.iter().zip(types.by_ref()) {
            let value = self.argument(dot, argument, parameter)?;
            // The rest is not evaluated when the result is certain.
            if name == "and" && !value.is_true() || name == "or" && value.is_true() {
                return Ok(value);
            }
            values.push(value);
        }
        if let (Some(last), Some(parameter)) = (last, types.next()) {
            values.push(self.checked(last, parameter)?);
        }
        if matches!(name, "and" | "or") {
            return Ok(values.pop().unwrap_or(Value::None));
        }
        let result = Functions { budget: &self.budget, now: self.now }.call(name, &values);
        match result {
            Ok(value) => Ok(value),
            Err(Failure::Invalid(what)) => self.failed(what),
            Err(Failure::Limit(error)) => Err(error),
        }
    }

    /// Evaluates an argument of a function.
    fn argument(&mut self, dot: &Value<'a>, argument: &'a Expr, parameter: Parameter) -> Result<Value<'a>> {
        let value = match (argument, parameter) {
            (Expr::Nil(_), Parameter::Text) => return self.failed("nil is not a text"),
            (Expr::Number(..) | Expr::Bool(..), Parameter::Text) => {
                return self.failed("the argument is not a text");
            }
            (argument, _) => self.operand(dot, argument)?,
        };
        self.checked(value, parameter)
    }

    /// Converts an argument to the type of its parameter.
    fn checked(&self, value: Value<'a>, parameter: Parameter) -> Result<Value<'a>> {
        match (parameter, value) {
            (Parameter::Any, Value::None) => Ok(Value::Nil),
            (Parameter::Text, value @ Value::Text(_)) => Ok(value),
            (Parameter::Text, value) => self.failed(format_args!("{} is not a text", value.type_name())),
            (_, value) => Ok(value),
        }
    }
}
