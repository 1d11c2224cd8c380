//! Parser of `WWW-Authenticate` (RFC 9110 section 11.6.1). It accepts unquoted URLs and unterminated strings, which the
//! strict parser of the crate `http-auth` rejects.

/// An authentication scheme that a registry requires.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    Bearer(Bearer),
    Basic,
}

/// The token server and the scope of a token.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Bearer {
    pub(super) realm: String,
    pub(super) service: Option<String>,
    /// Scopes, separated by spaces.
    pub(super) scope: Option<String>,
}

/// Chooses a challenge: `Bearer` if present, otherwise `Basic`.
pub(super) fn choose(headers: &[String]) -> Option<Challenge> {
    let mut basic = false;
    for header in headers {
        for (scheme, parameters) in parse(header) {
            if scheme.eq_ignore_ascii_case("basic") {
                basic = true;
            } else if scheme.eq_ignore_ascii_case("bearer") {
                let find = |name: &str| {
                    let found = parameters.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
                    found.map(|(_, value)| value.clone()).filter(|value| !value.is_empty())
                };
                if let Some(realm) = find("realm") {
                    return Some(Challenge::Bearer(Bearer { realm, service: find("service"), scope: find("scope") }));
                }
            }
        }
    }
    basic.then_some(Challenge::Basic)
}

type Parameters = Vec<(String, String)>;

/// The schemes of a header with their parameters. Commas separate both schemes and parameters; a word without `=` is a
/// scheme.
fn parse(header: &str) -> Vec<(String, Parameters)> {
    let mut schemes: Vec<(String, Parameters)> = Vec::new();
    let mut rest = header;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        if rest.is_empty() {
            return schemes;
        }
        let word;
        (word, rest) = split_where(rest, |c| matches!(c, ' ' | '\t' | ',' | '='));
        match rest.strip_prefix('=') {
            Some(after) => {
                let value;
                (value, rest) = value_of(after);
                if let Some((_, parameters)) = schemes.last_mut() {
                    parameters.push((word.to_owned(), value));
                }
            }
            None => schemes.push((word.to_owned(), Vec::new())),
        }
    }
}

/// Splits a parameter value, quoted or not, from the rest.
fn value_of(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let (bare, rest) = split_where(text, |c| matches!(c, ' ' | '\t' | ','));
        return (bare.to_owned(), rest);
    };
    let mut value = String::new();
    let mut chars = quoted.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => value.extend(chars.next()),
            _ => value.push(c),
        }
    }
    (value, chars.as_str())
}

fn split_where(text: &str, ends: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(ends).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(headers: &[&str], expected: Option<Challenge>) {
        let headers: Vec<String> = headers.iter().map(|header| (*header).to_owned()).collect();
        assert_eq!(choose(&headers), expected, "{headers:?}");
    }

    fn bearer(realm: &str, service: Option<&str>, scope: Option<&str>) -> Option<Challenge> {
        let (service, scope) = (service.map(str::to_owned), scope.map(str::to_owned));
        Some(Challenge::Bearer(Bearer { realm: realm.to_owned(), service, scope }))
    }

    #[test]
    fn challenge_is_parsed_and_bearer_preferred() {
        let usual = r#"Bearer realm="https://h/token",service="s",scope="repository:library/m:pull,push a:b:c""#;
        check(&[usual], bearer("https://h/token", Some("s"), Some("repository:library/m:pull,push a:b:c")));
        check(&["bearer REALM=https://h/t , service=x"], bearer("https://h/t", Some("x"), None));
        check(&[r#"Basic realm="x""#, r#"Bearer realm="r""#], bearer("r", None, None));
        check(&[r#"Basic realm="x", Bearer realm="r\"q",scope="""#], bearer("r\"q", None, None));
        check(&[r#"Basic realm="x""#], Some(Challenge::Basic));
        check(&["Bearer", "Negotiate", "realm=x", "=", "Bearer realm=\"\""], None);
        check(&["Bearer realm=\"unfinished"], bearer("unfinished", None, None));
        check(&[], None);
    }
}
