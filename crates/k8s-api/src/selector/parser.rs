//! The parser of label selectors, which accepts what the API server's accepts.

use super::{Cause, Condition, Requirement, error};

/// A parser with one token of lookahead.
pub(super) struct Parser<'a> {
    rest: &'a str,
    next: Token<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Symbol(&'a str),
    End,
}

/// Longer symbols come first: `==` is not two `=`.
const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];

// === impl Parser ===

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let mut parser = Self {
            rest: text,
            next: Token::End,
        };
        parser.advance();
        parser
    }

    /// The requirements of the whole text.
    pub(super) fn requirements(mut self) -> Result<Vec<Requirement>, Cause> {
        let mut requirements = Vec::new();
        if self.next == Token::End {
            return Ok(requirements);
        }
        if !self.next.begins_requirement() {
            return Err(Cause::ExpectedRequirement(self.next.text().to_owned()));
        }
        loop {
            requirements.push(self.requirement()?);
            match self.advance() {
                Token::End => return Ok(requirements),
                Token::Symbol(",") if self.next.begins_requirement() => {}
                Token::Symbol(",") => {
                    return Err(Cause::ExpectedKeyAfterComma(self.next.text().to_owned()));
                }
                other => return Err(Cause::ExpectedComma(other.text().to_owned())),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, Cause> {
        let negated = self.advance_over("!");
        let key = match self.advance() {
            Token::Word(key) => key.to_owned(),
            other => return Err(Cause::ExpectedKey(other.text().to_owned())),
        };
        if !error::key_problems(&key).is_empty() {
            return Err(Cause::InvalidKey(key));
        }
        let condition = if negated {
            Condition::DoesNotExist
        } else {
            self.condition(&key)?
        };
        Ok(Requirement { key, condition })
    }

    fn condition(&mut self, key: &str) -> Result<Condition, Cause> {
        if matches!(self.next, Token::End | Token::Symbol(",")) {
            return Ok(Condition::Exists);
        }
        let operator = self.advance();
        let one = |value| vec![value];
        Ok(match operator.text() {
            "in" => Condition::In(self.values(key)?),
            "notin" => Condition::NotIn(self.values(key)?),
            "=" | "==" => Condition::In(one(self.value(key)?)),
            "!=" => Condition::NotIn(one(self.value(key)?)),
            ">" => Condition::GreaterThan(self.number(key)?),
            "<" => Condition::LessThan(self.number(key)?),
            other => {
                return Err(Cause::ExpectedOperator {
                    key: key.to_owned(),
                    found: other.to_owned(),
                });
            }
        })
    }

    fn value(&mut self, key: &str) -> Result<String, Cause> {
        let value = match self.next {
            // Nothing after the operator is the empty value.
            Token::End | Token::Symbol(",") => String::new(),
            Token::Word(_) => self.advance().text().to_owned(),
            Token::Symbol(symbol) => return Err(Cause::ExpectedValue(symbol.to_owned())),
        };
        check_values(key, std::slice::from_ref(&value))?;
        Ok(value)
    }

    fn number(&mut self, key: &str) -> Result<i64, Cause> {
        let value = self.value(key)?;
        value.parse().map_err(|_| Cause::NotAnInteger(value))
    }

    /// Values in parentheses, sorted and distinct.
    fn values(&mut self, key: &str) -> Result<Vec<String>, Cause> {
        if !self.advance_over("(") {
            return Err(Cause::ExpectedOpenParenthesis(self.next.text().to_owned()));
        }
        let mut values = match self.next {
            Token::Symbol(")") => vec![String::new()],
            Token::Word(_) | Token::Symbol(",") => self.list()?,
            other => return Err(unclosed(other, "',', ')' or identifier")),
        };
        self.advance_over(")");
        values.sort();
        values.dedup();
        check_values(key, &values)?;
        Ok(values)
    }

    /// Values and commas up to the closing parenthesis, which is next then. Nothing
    /// between two commas, or between a comma and a parenthesis, is the empty value.
    fn list(&mut self) -> Result<Vec<String>, Cause> {
        let mut values = Vec::new();
        loop {
            match self.advance() {
                Token::Word(word) => {
                    values.push(word.to_owned());
                    match self.next {
                        Token::Symbol(",") => {}
                        Token::Symbol(")") => return Ok(values),
                        other => return Err(unclosed(other, "',' or ')'")),
                    }
                }
                Token::Symbol(",") => {
                    if values.is_empty() || self.next == Token::Symbol(",") {
                        values.push(String::new());
                    }
                    if self.next == Token::Symbol(")") {
                        values.push(String::new());
                        return Ok(values);
                    }
                }
                other => return Err(unclosed(other, "',', or identifier")),
            }
        }
    }

    fn advance_over(&mut self, symbol: &str) -> bool {
        let found = self.next == Token::Symbol(symbol);
        if found {
            self.advance();
        }
        found
    }

    /// Answers the token that was next, and reads the one after it.
    fn advance(&mut self) -> Token<'a> {
        let is_space = |char: char| matches!(char, ' ' | '\t' | '\r' | '\n');
        let rest = self.rest.trim_start_matches(is_space);
        let symbol = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol));
        let length = match symbol {
            Some(symbol) => symbol.len(),
            None => {
                let ends = |char: char| is_space(char) || "=!(),><".contains(char);
                rest.find(ends).unwrap_or(rest.len())
            }
        };
        let (text, rest) = rest.split_at(length);
        self.rest = rest;
        let token = match symbol {
            Some(_) => Token::Symbol(text),
            None if text.is_empty() => Token::End,
            None => Token::Word(text),
        };
        std::mem::replace(&mut self.next, token)
    }
}

fn unclosed(found: Token<'_>, expected: &'static str) -> Cause {
    Cause::UnclosedValues {
        found: found.text().to_owned(),
        expected,
    }
}

fn check_values(key: &str, values: &[String]) -> Result<(), Cause> {
    let invalid = |value: &String| !error::value_problems(value).is_empty();
    match values.iter().position(invalid) {
        None => Ok(()),
        Some(index) => Err(Cause::InvalidValue {
            key: key.to_owned(),
            index,
            value: values[index].clone(),
        }),
    }
}

// === impl Token ===

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Self::Word(text) | Self::Symbol(text) => text,
            Self::End => "",
        }
    }

    fn begins_requirement(self) -> bool {
        matches!(self, Self::Word(_) | Self::Symbol("!"))
    }
}
