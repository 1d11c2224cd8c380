//! Analysis and rewriting of a template's syntax tree: its field names, its tags, and the position of the answer.

use std::collections::{BTreeMap, BTreeSet};

use gotmpl::parse::{ActionNode, BranchNode, CommandNode, Expr, ListNode, Node, PipeNode, Pos, SmolStr};

/// Returns the branches of an `if`, `range` or `with`.
fn branches(node: &Node) -> Option<&BranchNode> {
    match node {
        Node::If(branch) | Node::Range(branch) | Node::With(branch) => Some(branch),
        _ => None,
    }
}

/// Returns the pipe of the node itself, without those of nested nodes.
fn pipe(node: &Node) -> Option<&PipeNode> {
    match node {
        Node::Action(action) => Some(&action.pipe),
        Node::Template(call) => call.pipe.as_ref(),
        node => branches(node).map(|branch| &branch.pipe),
    }
}

/// Calls `visit` for every node of a list and of nested lists.
fn visit_nodes<'a>(list: &'a ListNode, visit: &mut dyn FnMut(&'a Node)) {
    for node in &list.nodes {
        visit(node);
        if let Node::List(inner) = node {
            visit_nodes(inner, visit);
        }
        if let Some(branch) = branches(node) {
            visit_nodes(&branch.body, visit);
            if let Some(other) = &branch.else_body {
                visit_nodes(other, visit);
            }
        }
    }
}

/// Calls `visit` for every expression of a pipe and of nested pipes.
fn visit_expressions<'a>(pipe: &'a PipeNode, visit: &mut dyn FnMut(&'a Expr)) {
    let mut pending: Vec<&Expr> = pipe.commands.iter().flat_map(|command| &command.args).collect();
    while let Some(expression) = pending.pop() {
        visit(expression);
        match expression {
            Expr::Pipe(_, inner) => pending.extend(inner.commands.iter().flat_map(|command| &command.args)),
            Expr::Chain(_, inner, _) => pending.push(inner),
            _ => {}
        }
    }
}

/// Returns the names of all fields in a tree, in lower case. As in Ollama, the value before a dot in `(value).Name` does
/// not count.
pub(super) fn field_names(list: &ListNode) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    visit_nodes(list, &mut |node| {
        let mut pending: Vec<&PipeNode> = pipe(node).into_iter().collect();
        while let Some(pipe) = pending.pop() {
            for expression in pipe.commands.iter().flat_map(|command| &command.args) {
                match expression {
                    Expr::Field(_, fields) | Expr::Variable(_, _, fields) => {
                        names.extend(fields.iter().map(|name| name.to_lowercase()));
                    }
                    Expr::Pipe(_, inner) => pending.push(inner),
                    _ => {}
                }
            }
        }
    });
    names
}

/// Returns whether a pipe reads a field whose first name is `name`.
fn has_field(pipe: &PipeNode, name: &str) -> bool {
    let mut found = false;
    visit_expressions(pipe, &mut |expression| {
        found |= matches!(expression, Expr::Field(_, fields) if fields.first().is_some_and(|first| first == name));
    });
    found
}

/// Returns whether a pipe reads a field `name` of the current value or of a variable.
fn reads(pipe: &PipeNode, name: &str) -> bool {
    let mut found = false;
    visit_expressions(pipe, &mut |expression| {
        found |= matches!(expression, Expr::Field(_, fields) | Expr::Variable(_, _, fields)
            if fields.last().is_some_and(|last| last == name));
    });
    found
}

/// Returns the tags around reasoning: the first and last text of the innermost list that prints `.Thinking` in a loop
/// over messages.
pub(super) fn thinking_tags(list: &ListNode) -> (String, String) {
    let mut tags = (String::new(), String::new());
    find_tags(list, false, &mut tags);
    tags
}

fn find_tags(list: &ListNode, in_messages: bool, tags: &mut (String, String)) {
    for node in &list.nodes {
        if in_messages && pipe(node).is_some_and(|pipe| has_field(pipe, "Thinking")) {
            let text = |node: Option<&Node>| match node {
                Some(Node::Text(text)) => Some(text.text.trim().to_owned()),
                _ => None,
            };
            if let Some(open) = text(list.nodes.first()) {
                tags.0 = open;
            }
            if let Some(close) = text(list.nodes.last()) {
                tags.1 = close;
            }
        }
        let Some(branch) = branches(node) else { continue };
        // Only the innermost loop counts.
        let inside = match node {
            Node::Range(branch) => has_field(&branch.pipe, "Messages"),
            _ => in_messages,
        };
        find_tags(&branch.body, inside, tags);
        if let Some(other) = &branch.else_body {
            find_tags(other, inside, tags);
        }
    }
}

/// Returns the text that a template writes before tool calls, up to a brace, or `{` if there is none.
pub(super) fn call_tag(list: &ListNode, defined: &BTreeMap<String, ListNode>) -> Option<String> {
    let mut calls = None;
    for list in std::iter::once(list).chain(defined.values()) {
        visit_nodes(list, &mut |node| {
            let branch = branches(node).filter(|branch| reads(&branch.pipe, "ToolCalls"));
            calls = calls.or(branch.map(|branch| &branch.body));
        });
    }
    let text = first_text(calls?, Some(defined)).unwrap_or_default();
    let tag = text.split('{').next().unwrap_or_default().trim();
    Some(if tag.is_empty() { "{".to_owned() } else { tag.to_owned() })
}

/// Returns the first text of a list that is not white space, also in templates of `defined` that the list calls.
fn first_text<'a>(list: &'a ListNode, defined: Option<&'a BTreeMap<String, ListNode>>) -> Option<&'a str> {
    let mut found = None;
    visit_nodes(list, &mut |node| {
        let text = match node {
            Node::Text(text) => Some(&*text.text).filter(|text| !text.trim().is_empty()),
            // A template may call itself, so this goes one level deep.
            Node::Template(call) if found.is_none() => {
                defined.and_then(|defined| first_text(defined.get(&*call.name)?, None))
            }
            _ => None,
        };
        found = found.or(text);
    });
    found
}

/// Copies the tree up to and including the first `.Response`.
pub(super) fn until_response(list: &ListNode) -> ListNode {
    cut_list(list, &mut false)
}

fn cut_list(list: &ListNode, done: &mut bool) -> ListNode {
    let mut nodes = Vec::new();
    for node in &list.nodes {
        if *done {
            break;
        }
        let branch = |branch: &BranchNode, done: &mut bool| BranchNode {
            body: cut_list(&branch.body, done),
            else_body: branch.else_body.as_ref().map(|other| cut_list(other, done)),
            ..branch.clone()
        };
        nodes.push(match node {
            Node::Action(action) => match cut_pipe(&action.pipe, done) {
                Some(pipe) => Node::Action(ActionNode { pos: action.pos, pipe }),
                None => continue,
            },
            Node::List(inner) => Node::List(cut_list(inner, done)),
            Node::If(inner) => Node::If(branch(inner, done)),
            Node::Range(inner) => Node::Range(branch(inner, done)),
            Node::With(inner) => Node::With(branch(inner, done)),
            other => other.clone(),
        });
    }
    ListNode { pos: list.pos, nodes }
}

/// Copies a pipe up to its first `.Response`. Returns `None` if a command is empty.
fn cut_pipe(pipe: &PipeNode, done: &mut bool) -> Option<PipeNode> {
    let mut commands = Vec::new();
    for command in &pipe.commands {
        let mut args = Vec::new();
        for expression in &command.args {
            if *done {
                break;
            }
            match expression {
                Expr::Field(_, fields) => {
                    *done = fields.iter().any(|name| name == "Response");
                    args.push(expression.clone());
                }
                Expr::Pipe(pos, inner) => args.extend(cut_pipe(inner, done).map(|inner| Expr::Pipe(*pos, inner))),
                other => args.push(other.clone()),
            }
        }
        if args.is_empty() {
            return None;
        }
        commands.push(CommandNode { pos: command.pos, args });
    }
    Some(PipeNode { commands, ..pipe.clone() })
}

/// Appends `{{ .Response }}` to the tree.
pub(super) fn with_response(mut list: ListNode) -> ListNode {
    let pos = list.pos;
    let field = Expr::Field(pos, vec![SmolStr::new("Response")]);
    list.nodes.push(Node::Action(ActionNode { pos, pipe: call(pos, vec![field]) }));
    list
}

fn call(pos: Pos, args: Vec<Expr>) -> PipeNode {
    PipeNode { pos, decl: Vec::new(), commands: vec![CommandNode { pos, args }], is_assign: false }
}
