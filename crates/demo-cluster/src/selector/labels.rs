//! `labelSelector=app in (a,b),!canary,tier!=db,weight>3`, as Kubernetes has it.

use serde_json::Value;

/// Requirements that all hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct LabelSelector(Vec<Requirement>);

#[derive(Clone, Debug)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug)]
enum Test {
    Exists,
    Missing,
    In(Vec<String>),
    NotIn(Vec<String>),
    Above(i64),
    Below(i64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Symbol(&'static str),
    End,
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

const OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

// === impl LabelSelector ===

impl LabelSelector {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser {
            tokens: tokens(text),
            at: 0,
        };
        parser.requirements().map(Self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn matches(&self, labels: &Value) -> bool {
        self.0.iter().all(|requirement| {
            let label = labels.get(&requirement.key).and_then(Value::as_str);
            requirement.test.holds(label)
        })
    }
}

// === impl Test ===

impl Test {
    fn holds(&self, label: Option<&str>) -> bool {
        let among = |values: &[String]| label.is_some_and(|it| values.iter().any(|one| one == it));
        let number = || label.and_then(|it| it.parse::<i64>().ok());
        match self {
            Self::Exists => label.is_some(),
            Self::Missing => label.is_none(),
            Self::In(values) => among(values),
            Self::NotIn(values) => !among(values),
            Self::Above(limit) => number().is_some_and(|it| it > *limit),
            Self::Below(limit) => number().is_some_and(|it| it < *limit),
        }
    }
}

// === impl Token ===

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Word(word) => word,
            Self::Symbol(symbol) => symbol,
            Self::End => "",
        }
    }
}

const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            tokens.push(Token::Symbol(symbol));
            rest = &rest[symbol.len()..];
        } else {
            let special = |char: char| char.is_ascii_whitespace() || "=!(),><".contains(char);
            let end = rest.find(special).unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..end].to_owned()));
            rest = &rest[end..];
        }
        rest = rest.trim_start();
    }
    tokens
}

// === impl Parser ===

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).unwrap_or(&Token::End)
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn requirements(&mut self) -> Result<Vec<Requirement>, String> {
        let mut found = Vec::new();
        loop {
            match self.peek() {
                Token::End => return Ok(found),
                Token::Word(_) | Token::Symbol("!") => {
                    let one = self
                        .requirement()
                        .map_err(|why| format!("unable to parse requirement: {why}"))?;
                    found.push(one);
                }
                other @ Token::Symbol(_) => {
                    let other = other.text();
                    return Err(format!(
                        "found '{other}', expected: !, identifier, or 'end of string'"
                    ));
                }
            }
            match self.next() {
                Token::End => return Ok(found),
                Token::Symbol(",") => match self.peek() {
                    Token::Word(_) | Token::Symbol("!") => {}
                    other => {
                        let other = other.text();
                        return Err(format!("found '{other}', expected: identifier after ','"));
                    }
                },
                other => {
                    let other = other.text();
                    return Err(format!("found '{other}', expected: ',' or 'end of string'"));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let missing = *self.peek() == Token::Symbol("!");
        if missing {
            self.next();
        }
        let Token::Word(key) = self.next() else {
            self.at -= 1;
            return Err(format!(
                "found '{}', expected: identifier",
                self.peek().text()
            ));
        };
        check_key(&key)?;
        let test = if missing {
            Test::Missing
        } else {
            self.test(&key)?
        };
        Ok(Requirement { key, test })
    }

    fn test(&mut self, key: &str) -> Result<Test, String> {
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(Test::Exists);
        }
        let operator = self.next();
        let test = match operator.text() {
            "in" => Test::In(self.set(key)?),
            "notin" => Test::NotIn(self.set(key)?),
            "=" | "==" => Test::In(vec![self.value(key)?]),
            "!=" => Test::NotIn(vec![self.value(key)?]),
            ">" => Test::Above(self.number(key)?),
            "<" => Test::Below(self.number(key)?),
            other => return Err(format!("found '{other}', expected: {OPERATORS}")),
        };
        Ok(test)
    }

    fn value(&mut self, key: &str) -> Result<String, String> {
        let value = match self.peek() {
            // Nothing after the operator is the empty value.
            Token::End | Token::Symbol(",") => String::new(),
            Token::Word(_) => self.next().text().to_owned(),
            other @ Token::Symbol(_) => {
                return Err(format!("found '{}', expected: identifier", other.text()));
            }
        };
        check_value(key, 0, &value)?;
        Ok(value)
    }

    fn number(&mut self, key: &str) -> Result<i64, String> {
        let value = self.value(key)?;
        value.parse().map_err(|_| {
            format!(
                "values[0]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, the value must be \
                 an integer"
            )
        })
    }

    fn set(&mut self, key: &str) -> Result<Vec<String>, String> {
        let open = self.next();
        if open != Token::Symbol("(") {
            return Err(format!("found '{}' expected: '('", open.text()));
        }
        let mut values = Vec::new();
        loop {
            match self.next() {
                Token::Word(word) => {
                    values.push(word);
                    match self.next() {
                        Token::Symbol(",") => {
                            if *self.peek() == Token::Symbol(")") {
                                values.push(String::new());
                            }
                        }
                        Token::Symbol(")") => break,
                        other => {
                            let other = other.text();
                            return Err(format!("found '{other}', expected: ',' or ')'"));
                        }
                    }
                }
                // Between two commas, or a comma and a parenthesis, is the empty value.
                Token::Symbol(",") => values.push(String::new()),
                Token::Symbol(")") => {
                    if values.is_empty() {
                        values.push(String::new());
                    }
                    break;
                }
                other => {
                    let other = other.text();
                    return Err(format!("found '{other}', expected: ',', ')' or identifier"));
                }
            }
        }
        for (index, value) in values.iter().enumerate() {
            check_value(key, index, value)?;
        }
        Ok(values)
    }
}

const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start \
                         and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or \
                         '123-abc', regex used for validation is \
                         '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

fn check_key(key: &str) -> Result<(), String> {
    let wrong = |why: &str| Err(format!("<nil>: Invalid value: \"{key}\": {why}"));
    let parts: Vec<_> = key.split('/').collect();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                return wrong("prefix part must be non-empty");
            }
            if !is_subdomain(prefix) {
                return wrong(
                    "prefix part a lowercase RFC 1123 subdomain must consist of lower case \
                     alphanumeric characters, '-' or '.', and must start and end with an \
                     alphanumeric character (e.g. 'example.com', regex used for validation is \
                     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
                );
            }
            *name
        }
        _ => {
            return wrong(&format!(
                "a valid label key {NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
            ));
        }
    };
    if name.is_empty() {
        return wrong(&format!(
            "name part must be non-empty; name part {NAME_RULE}"
        ));
    }
    if name.len() > 63 {
        return wrong("name part must be no more than 63 bytes");
    }
    if !is_name(name) {
        return wrong(&format!("name part {NAME_RULE}"));
    }
    Ok(())
}

fn check_value(key: &str, index: usize, value: &str) -> Result<(), String> {
    let wrong = |why: &str| {
        Err(format!(
            "values[{index}][{key}]: Invalid value: \"{value}\": {why}"
        ))
    };
    if value.len() > 63 {
        return wrong("must be no more than 63 bytes");
    }
    if !value.is_empty() && !is_name(value) {
        return wrong(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' \
             or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or \
             'my_value',  or '12345', regex used for validation is \
             '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        );
    }
    Ok(())
}

fn is_name(text: &str) -> bool {
    let inside = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
    text.starts_with(|char: char| char.is_ascii_alphanumeric())
        && text.ends_with(|char: char| char.is_ascii_alphanumeric())
        && text.chars().all(inside)
}

fn is_subdomain(text: &str) -> bool {
    let edge = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit();
    text.split('.').all(|part| {
        part.starts_with(edge)
            && part.ends_with(edge)
            && part.chars().all(|char| edge(char) || char == '-')
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(selector: &str, expected: bool) {
        let labels = json!({"app": "web", "tier": "", "weight": "5", "example.com/team": "a"});
        let selector = LabelSelector::parse(selector).unwrap();
        assert_eq!(selector.matches(&labels), expected, "{selector:?}");
    }

    #[test]
    fn requirements_all_hold() {
        check("", true);
        check("app", true);
        check("!app", false);
        check("! canary", true);
        check("app=web,weight=5", true);
        check("app == web , tier=", true);
        check("app=web,tier=x", false);
        check("app!=web", false);
        check("canary!=yes", true);
        check("app in (api, web)", true);
        check("app notin (api,web)", false);
        check("canary notin (yes)", true);
        check("canary in (yes)", false);
        check("tier in ()", true);
        check("tier in (,a)", true);
        check("weight>4,weight<6", true);
        check("weight>5", false);
        check("example.com/team=a", true);
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in ".{0,40}") {
            let _answer = LabelSelector::parse(&text);
        }

        #[test]
        fn a_value_is_in_what_names_it(value in "[a-z0-9]{1,8}", other in "[A-Z]{1,8}") {
            let labels = json!({"key": value});
            let matches = |text: String| LabelSelector::parse(&text).unwrap().matches(&labels);
            prop_assert_eq!(matches(format!("key={value}")), true);
            prop_assert_eq!(matches(format!("key in ({other},{value})")), true);
            prop_assert_eq!(matches(format!("key notin ({other},{value})")), false);
            prop_assert_eq!(matches(format!("key in ({other})")), false);
        }
    }
}
