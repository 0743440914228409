//! Files of a release that are made from templates in `packaging/`, with `{{KEY}}` and `{{KEY ARGUMENT}}` filled in.

use std::fs;

use anyhow::{Context as _, Result, bail};

use crate::tools::root;

/// Reads a template.
pub fn read(name: &str) -> Result<String> {
    let path = root().join("packaging").join(name);
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}

/// Fills all placeholders. `value` is given the words of each, and knows what stands there or fails.
pub fn fill(name: &str, template: &str, value: &dyn Fn(&[&str]) -> Result<Option<String>>) -> Result<String> {
    let mut filled = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (placeholder, after) = after.split_once("}}").with_context(|| format!("{name}: a placeholder does not end"))?;
        let words: Vec<&str> = placeholder.split_whitespace().collect();
        let Some(value) = value(&words).with_context(|| format!("{name}: {{{{{placeholder}}}}}"))? else {
            bail!("{name}: nothing is known for {{{{{placeholder}}}}}");
        };
        filled.push_str(before);
        filled.push_str(&value);
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}
