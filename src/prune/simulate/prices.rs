//! Prices of tokens: a dated table, which the user can replace.

use serde::Deserialize;

use super::cache::ChargedTokens;

const BUILT_IN: &str = include_str!("../prices.toml");

/// A table of prices.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// The day on which they were looked up.
    pub dated: String,
    #[serde(default, rename = "model")]
    models: Vec<ModelPrice>,
    fallback: Fallback,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelPrice {
    prefix: String,
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write_5m: Option<f64>,
    cache_write_1h: Option<f64>,
    long: Option<LongRequestPrice>,
}

/// Prices of requests beyond a size; those of their cache are in proportion.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct LongRequestPrice {
    above_tokens: u64,
    input: f64,
    output: f64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fallback {
    input: f64,
    output: f64,
    note: String,
}

/// Errors from reading a table of prices.
#[derive(Debug, thiserror::Error)]
pub enum PricesError {
    /// It does not have the form of a table.
    #[error("{0}")]
    Form(#[from] toml::de::Error),
    /// A price is not valid.
    #[error("{0} has a price that is negative or no number")]
    Price(String),
}

/// Prices of a model, in US dollars for a million tokens.
#[derive(Debug, Clone)]
pub struct Price {
    input: f64,
    output: f64,
    cache_read: f64,
    cache_write: f64,
    long: Option<LongRequestPrice>,
    /// The reason, if it is not the model's own price.
    pub note: Option<String>,
}

impl Prices {
    /// The built-in table.
    ///
    /// # Errors
    /// Never, as a test shows.
    pub fn built_in() -> Result<Self, PricesError> {
        Self::parse(BUILT_IN)
    }

    /// Parses a table.
    ///
    /// # Errors
    /// If it is no table of prices.
    pub fn parse(text: &str) -> Result<Self, PricesError> {
        let table: Self = toml::from_str(text)?;
        let is_price = |price: &f64| price.is_finite() && *price >= 0.0;
        for model in &table.models {
            let optional = [model.cache_read, model.cache_write_5m, model.cache_write_1h];
            let long = model.long.map(|long| [long.input, long.output]);
            let mut all =
                [model.input, model.output].into_iter().chain(optional.into_iter().flatten()).chain(long.into_iter().flatten());
            if !all.all(|price| is_price(&price)) {
                return Err(PricesError::Price(model.prefix.clone()));
            }
        }
        if ![table.fallback.input, table.fallback.output].iter().all(is_price) {
            return Err(PricesError::Price("fallback".to_owned()));
        }
        Ok(table)
    }

    /// The price of a model, with the cache for five minutes or for an hour. Other clouds put a prefix before the model's name.
    pub fn of(&self, model: &str, is_hourly: bool) -> Price {
        let name = model.find("claude-").map_or(model, |at| &model[at..]);
        let known = self.models.iter().filter(|known| name.starts_with(&known.prefix)).max_by_key(|known| known.prefix.len());
        let write = if is_hourly { 2.0 } else { 1.25 };
        let Some(known) = known else {
            let Fallback { input, output, note } = &self.fallback;
            let note = Some(format!("{model}: {note}"));
            return Price {
                input: *input,
                output: *output,
                cache_read: input * 0.1,
                cache_write: input * write,
                long: None,
                note,
            };
        };
        let stated = if is_hourly { known.cache_write_1h } else { known.cache_write_5m };
        Price {
            input: known.input,
            output: known.output,
            cache_read: known.cache_read.unwrap_or(known.input * 0.1),
            cache_write: stated.unwrap_or(known.input * write),
            long: known.long,
            note: None,
        }
    }
}

impl Price {
    /// Prices in units of a token of plain input, as those of most models are: an answer is 5, a token from the cache 0.1, one into it 1.25
    /// or, for an hour, 2. Costs are then millions of such tokens.
    pub fn in_input_tokens(is_hourly: bool) -> Self {
        let cache_write = if is_hourly { 2.0 } else { 1.25 };
        Self { input: 1.0, output: 5.0, cache_read: 0.1, cache_write, long: None, note: None }
    }

    /// Cost of a call, in US dollars.
    pub fn of(&self, served: ChargedTokens, output_tokens: u64) -> f64 {
        const MILLION: f64 = 1_000_000.0;
        let ChargedTokens { read, written, uncached } = served;
        let long = self.long.filter(|long| read + written + uncached > long.above_tokens);
        let (times, output) = match long {
            Some(long) if self.input > 0.0 => (long.input / self.input, long.output),
            _ => (1.0, self.output),
        };
        let input = read as f64 * self.cache_read + written as f64 * self.cache_write + uncached as f64 * self.input;
        (input * times + output_tokens as f64 * output) / MILLION
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(model: &str) -> f64 {
        Prices::built_in().unwrap().of(model, false).input
    }

    #[test]
    fn models_are_known_by_their_beginning() {
        for (model, price) in [
            ("claude-opus-4-20250514", 15.0),
            ("claude-opus-4-1-20250805", 15.0),
            ("claude-opus-4-5-20251101", 5.0),
            ("claude-opus-4-8", 5.0),
            ("claude-opus-5", 5.0),
            ("claude-opus-5-5", 4.0),
            ("claude-sonnet-4-5-20250929", 3.0),
            ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", 3.0),
            ("claude-sonnet-5", 2.0),
            ("claude-haiku-4-5", 1.0),
        ] {
            assert_eq!(input(model), price, "{model}");
        }
        let unknown = Prices::built_in().unwrap().of("gpt", false);
        assert_eq!(unknown.note.as_deref(), Some("gpt: not in the table; priced as Sonnet 4.5"));
    }

    #[test]
    fn a_call_costs_what_its_parts_cost() {
        let prices = Prices::built_in().unwrap();
        let served = ChargedTokens { read: 1_000_000, written: 100_000, uncached: 10_000 };
        let cost = prices.of("claude-opus-4-5", false).of(served, 20_000);
        assert!((cost - (0.5 + 0.625 + 0.05 + 0.5)).abs() < 1e-9, "{cost}");
        let hourly = prices.of("claude-opus-4-5", true).of(served, 20_000);
        assert!((hourly - (0.5 + 1.0 + 0.05 + 0.5)).abs() < 1e-9, "{hourly}");
    }

    #[test]
    fn a_long_request_may_cost_more() {
        let price = Prices::built_in().unwrap().of("claude-haiku-5-5", false);
        let cost = |read| price.of(ChargedTokens { read, ..ChargedTokens::default() }, 0);
        assert!((cost(100_000) - 0.001).abs() < 1e-12, "{}", cost(100_000));
        assert!((cost(200_000) - 0.01).abs() < 1e-12, "{}", cost(200_000));
    }

    #[test]
    fn a_bad_table_is_refused() {
        for bad in ["", "dated = 1", "dated = \"x\"\n[fallback]\ninput = -1.0\noutput = 1.0\nnote = \"\""] {
            assert!(Prices::parse(bad).is_err(), "{bad}");
        }
    }
}
