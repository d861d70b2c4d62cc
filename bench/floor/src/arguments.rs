//! The arguments `command --name value …`.

use std::collections::HashMap;
use std::str::FromStr;

use crate::Failure;

pub(crate) struct Arguments {
    command: String,
    values: HashMap<String, String>,
}

impl Arguments {
    pub(crate) fn of_process() -> Result<Self, Failure> {
        let mut words = std::env::args().skip(1);
        let command = words.next().ok_or("a command is needed")?;
        let mut values = HashMap::new();
        while let Some(word) = words.next() {
            let name = word
                .strip_prefix("--")
                .ok_or_else(|| format!("'{word}' is no option"))?;
            let value = words.next().ok_or_else(|| format!("--{name} needs a value"))?;
            values.insert(name.to_owned(), value);
        }
        Ok(Self { command, values })
    }

    pub(crate) fn command(&self) -> &str {
        &self.command
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    pub(crate) fn text(&self, name: &str) -> Result<&str, Failure> {
        Ok(self.values.get(name).ok_or_else(|| format!("--{name} is needed"))?)
    }

    pub(crate) fn number<T: FromStr>(&self, name: &str, default: Option<T>) -> Result<T, Failure> {
        match (self.values.get(name), default) {
            (Some(text), _) => text.parse().map_err(|_| format!("--{name} is no number").into()),
            (None, Some(default)) => Ok(default),
            (None, None) => Err(format!("--{name} is needed").into()),
        }
    }

    pub(crate) fn word<'a>(&'a self, name: &str, default: &'a str) -> &'a str {
        self.values.get(name).map_or(default, String::as_str)
    }
}
