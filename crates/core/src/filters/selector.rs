//! Label selectors in the whole syntax of Kubernetes: `a=b`, `a==b`, `a!=b`,
//! `a in (b,c)`, `a notin (b,c)`, `a`, `!a`, `a>1`, `a<1`, joined by commas.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
};

use thiserror::Error;

/// All requirements have to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Test {
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    Missing,
    Above(i64),
    Below(i64),
}

/// A text that is no selector.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{selector}` is no label selector: {why}")]
pub struct NotASelector {
    selector: String,
    why: String,
}

/// Words and signs of a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Sign(&'static str),
}

/// Longer ones first: `==` is not two `=`.
const SIGNS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];

// === impl Selector ===

impl Selector {
    /// Whether these labels satisfy it.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|one| one.holds(labels))
    }

    /// Whether it asks for nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromStr for Selector {
    type Err = NotASelector;

    fn from_str(text: &str) -> Result<Self, NotASelector> {
        let parse = || -> Result<Self, String> {
            let mut tokens = tokens(text)?.into_iter().peekable();
            let mut all = Vec::new();
            while tokens.peek().is_some() {
                all.push(requirement(&mut tokens)?);
                match tokens.next() {
                    None => {}
                    Some(Token::Sign(",")) if tokens.peek().is_some() => {}
                    Some(Token::Sign(",")) => return Err("it ends with a comma".to_owned()),
                    Some(other) => return Err(format!("`{other}` where a comma was due")),
                }
            }
            all.sort();
            all.dedup();
            Ok(Self(all))
        };
        parse().map_err(|why| NotASelector {
            selector: text.to_owned(),
            why,
        })
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, one) in self.0.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            write!(f, "{comma}{one}")?;
        }
        Ok(())
    }
}

// === impl Requirement ===

impl Requirement {
    fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        let number = || value.and_then(|text| text.parse::<i64>().ok());
        match &self.test {
            Test::In(values) => value.is_some_and(|value| values.contains(value)),
            // As in Kubernetes: what has no such label is not in any set.
            Test::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Test::Exists => value.is_some(),
            Test::Missing => value.is_none(),
            Test::Above(limit) => number().is_some_and(|number| number > *limit),
            Test::Below(limit) => number().is_some_and(|number| number < *limit),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, test } = self;
        let list = |values: &BTreeSet<String>| {
            let values: Vec<_> = values.iter().map(String::as_str).collect();
            values.join(",")
        };
        match test {
            Test::In(values) if values.len() == 1 => write!(f, "{key}={}", list(values)),
            Test::In(values) => write!(f, "{key} in ({})", list(values)),
            Test::NotIn(values) if values.len() == 1 => write!(f, "{key}!={}", list(values)),
            Test::NotIn(values) => write!(f, "{key} notin ({})", list(values)),
            Test::Exists => f.write_str(key),
            Test::Missing => write!(f, "!{key}"),
            Test::Above(limit) => write!(f, "{key}>{limit}"),
            Test::Below(limit) => write!(f, "{key}<{limit}"),
        }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => f.write_str(word),
            Self::Sign(sign) => f.write_str(sign),
        }
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            tokens.push(Token::Sign(sign));
            rest = &rest[sign.len()..];
        } else {
            let end = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
            if end == 0 {
                return Err(format!("`{first}` cannot stand in a label"));
            }
            tokens.push(Token::Word(rest[..end].to_owned()));
            rest = &rest[end..];
        }
        rest = rest.trim_start();
    }
    Ok(tokens)
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/')
}

fn requirement(
    tokens: &mut std::iter::Peekable<impl Iterator<Item = Token>>,
) -> Result<Requirement, String> {
    if tokens.next_if_eq(&Token::Sign("!")).is_some() {
        let key = key(tokens.next())?;
        return Ok(Requirement {
            key,
            test: Test::Missing,
        });
    }
    let key = key(tokens.next())?;
    let test = match tokens.peek() {
        None | Some(Token::Sign(",")) => Test::Exists,
        Some(Token::Sign("=" | "==")) => {
            tokens.next();
            Test::In([optional_value(tokens)?].into())
        }
        Some(Token::Sign("!=")) => {
            tokens.next();
            Test::NotIn([optional_value(tokens)?].into())
        }
        Some(Token::Sign(">")) => {
            tokens.next();
            Test::Above(number(tokens.next())?)
        }
        Some(Token::Sign("<")) => {
            tokens.next();
            Test::Below(number(tokens.next())?)
        }
        Some(Token::Word(word)) if word == "in" => {
            tokens.next();
            Test::In(values(tokens)?)
        }
        Some(Token::Word(word)) if word == "notin" => {
            tokens.next();
            Test::NotIn(values(tokens)?)
        }
        Some(other) => return Err(format!("`{other}` after `{key}` is no operator")),
    };
    Ok(Requirement { key, test })
}

fn key(token: Option<Token>) -> Result<String, String> {
    let Some(Token::Word(word)) = token else {
        let found = token.map_or("nothing".to_owned(), |token| format!("`{token}`"));
        return Err(format!("{found} where a label's name was due"));
    };
    let (prefix, name) = match word.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, word.as_str()),
    };
    let prefix_fits = prefix.is_none_or(|prefix| {
        !prefix.is_empty()
            && prefix.len() <= 253
            && prefix.split('.').all(|part| {
                let lower = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
                !part.is_empty()
                    && part.chars().all(lower)
                    && !part.starts_with('-')
                    && !part.ends_with('-')
            })
    });
    if !prefix_fits || name.is_empty() || !is_name(name) {
        return Err(format!("no label is called `{word}`"));
    }
    Ok(word)
}

/// A name of a label, or a value that is not empty.
fn is_name(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && !text.contains('/')
        && edge(text.chars().next())
        && edge(text.chars().next_back())
}

fn value(word: String) -> Result<String, String> {
    if is_name(&word) {
        Ok(word)
    } else {
        Err(format!("no label has the value `{word}`"))
    }
}

/// `a=` asks for the empty value.
fn optional_value(
    tokens: &mut std::iter::Peekable<impl Iterator<Item = Token>>,
) -> Result<String, String> {
    match tokens.peek() {
        None | Some(Token::Sign(",")) => Ok(String::new()),
        Some(Token::Sign(sign)) => Err(format!("`{sign}` where a value was due")),
        Some(Token::Word(_)) => match tokens.next() {
            Some(Token::Word(word)) => value(word),
            _ => Ok(String::new()),
        },
    }
}

fn number(token: Option<Token>) -> Result<i64, String> {
    match token {
        Some(Token::Word(word)) => word
            .parse()
            .map_err(|_| format!("`{word}` is not a whole number")),
        other => {
            let found = other.map_or("nothing".to_owned(), |token| format!("`{token}`"));
            Err(format!("{found} where a number was due"))
        }
    }
}

fn values(
    tokens: &mut std::iter::Peekable<impl Iterator<Item = Token>>,
) -> Result<BTreeSet<String>, String> {
    if tokens.next_if_eq(&Token::Sign("(")).is_none() {
        return Err("`in` and `notin` take values in brackets".to_owned());
    }
    let mut values = BTreeSet::new();
    loop {
        match tokens.next() {
            Some(Token::Word(word)) => {
                values.insert(value(word)?);
                match tokens.next() {
                    Some(Token::Sign(",")) => {
                        // `(a,)` asks for the empty value as well.
                        if tokens.next_if_eq(&Token::Sign(")")).is_some() {
                            values.insert(String::new());
                            return Ok(values);
                        }
                    }
                    Some(Token::Sign(")")) => return Ok(values),
                    _ => return Err("a bracket is not closed".to_owned()),
                }
            }
            Some(Token::Sign(",")) => {
                values.insert(String::new());
                if tokens.next_if_eq(&Token::Sign(")")).is_some() {
                    return Ok(values);
                }
            }
            Some(Token::Sign(")")) if values.is_empty() => {
                values.insert(String::new());
                return Ok(values);
            }
            _ => return Err("a bracket is not closed".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests;
