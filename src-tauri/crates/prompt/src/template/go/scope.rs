//! Checks of a syntax tree that Go's parser makes: functions, variables and loops exist where they are used.

use gotmpl::parse::{BranchNode, Expr, ListNode, Node, PipeNode, Pos};

use super::super::Error;
use super::functions;

/// Names that are visible at a position.
struct Scope<'t> {
    variables: Vec<&'t str>,
    /// Number of loops around the position.
    loops: usize,
}

/// Checks the tree of a template.
///
/// # Errors
/// [`Error::Syntax`] with the line.
pub(super) fn check(list: &ListNode) -> Result<(), Error> {
    Scope { variables: vec!["$"], loops: 0 }.list(list)
}

fn invalid<T>(pos: Pos, what: &str) -> Result<T, Error> {
    Err(Error::Syntax { reason: format!("line {}: {what}", pos.line) })
}

impl<'t> Scope<'t> {
    fn list(&mut self, list: &'t ListNode) -> Result<(), Error> {
        list.nodes.iter().try_for_each(|node| self.node(node))
    }

    fn node(&mut self, node: &'t Node) -> Result<(), Error> {
        match node {
            Node::Text(_) | Node::Define(_) => Ok(()),
            Node::Action(action) => self.pipe(&action.pipe),
            Node::List(list) => self.list(list),
            Node::If(branch) | Node::With(branch) => self.branch(branch, 0),
            Node::Range(branch) => self.branch(branch, 1),
            // Go accepts a call without an argument, Ollama does not.
            Node::Template(call) => match &call.pipe {
                Some(pipe) => self.pipe(pipe),
                None => invalid(call.pos, "{{template}} needs an argument after the name, such as a dot"),
            },
            Node::Break(pos) if self.loops == 0 => invalid(*pos, "{{break}} outside of {{range}}"),
            Node::Continue(pos) if self.loops == 0 => invalid(*pos, "{{continue}} outside of {{range}}"),
            Node::Break(_) | Node::Continue(_) => Ok(()),
        }
    }

    fn branch(&mut self, branch: &'t BranchNode, loops: usize) -> Result<(), Error> {
        let count = self.variables.len();
        self.pipe(&branch.pipe)?;
        self.loops += loops;
        self.list(&branch.body)?;
        self.loops -= loops;
        // Variables of the body are visible here too, but have no value when this runs.
        if let Some(other) = &branch.else_body {
            self.list(other)?;
        }
        self.variables.truncate(count);
        Ok(())
    }

    fn pipe(&mut self, pipe: &'t PipeNode) -> Result<(), Error> {
        self.variables.extend(pipe.decl.iter().map(|name| name.as_str()));
        for (stage, command) in pipe.commands.iter().enumerate() {
            let is_value = matches!(
                command.args.first(),
                Some(Expr::Bool(..) | Expr::Dot(_) | Expr::Nil(_) | Expr::Number(..) | Expr::String(..))
            );
            if stage > 0 && is_value {
                return invalid(command.pos, "a value follows | where a function is needed");
            }
            command.args.iter().try_for_each(|expression| self.expression(expression))?;
        }
        Ok(())
    }

    fn expression(&mut self, expression: &'t Expr) -> Result<(), Error> {
        match expression {
            Expr::Identifier(pos, name) if functions::signature(name).is_none() => {
                invalid(*pos, &format!("there is no function {:?}", name.as_str()))
            }
            Expr::Variable(pos, name, _) if !self.variables.contains(&name.as_str()) => {
                invalid(*pos, &format!("there is no variable {name}"))
            }
            Expr::Pipe(_, pipe) => self.pipe(pipe),
            Expr::Chain(_, inner, _) => self.expression(inner),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Go;

    fn check(source: &str, wanted: &str) {
        let result = Go::parse(source).map_or_else(|error| error.to_string(), |_| "fine".to_owned());
        assert!(result.contains(wanted), "{source}: {result}");
    }

    #[test]
    fn loops_and_variables_are_checked() {
        check("{{ range .A }}{{ if . }}{{ break }}{{ end }}{{ continue }}{{ end }}", "fine");
        check("a\n{{ break }}", "line 2: {{break}} outside");
        check("{{ range .A }}{{ else }}{{ continue }}{{ end }}", "line 1: {{continue}} outside");
        check("{{ range .A }}{{ block \"b\" . }}{{ break }}{{ end }}{{ end }}", "{{break}} outside");
        check("{{ $x := 1 }}{{ if $x }}{{ $y := $x }}{{ $y }}{{ end }}{{ $.A }}", "fine");
        check("{{ range $i, $v := .A }}{{ $i }}{{ $v }}{{ end }}", "fine");
        check("{{ if .A }}{{ $y := 1 }}{{ end }}\n{{ $y }}", "line 2: there is no variable $y");
        check("{{ $x := 1 }}{{ define \"a\" }}{{ $x }}{{ end }}", "there is no variable $x");
        check("{{ (print $z).A }}", "there is no variable $z");
        check("{{ .A | print | nothing }}", "there is no function \"nothing\"");
        check("{{ template \"a\" }}", "line 1: {{template}} needs an argument");
        check("{{ .A | 1 }}", "a value follows |");
    }
}
