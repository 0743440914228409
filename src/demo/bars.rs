//! A chart in text: tokens of each request, unpatched and patched.

/// Columns of the longest bar.
const WIDTH: u64 = 48;

/// Draws the tokens of each request of two conversations. Of those at the start that are alike, within a hundredth, only the first and the
/// last are drawn, once. A request that one of them does not have is left out there.
pub fn bars(unpatched: &[u64], patched: &[u64]) -> String {
    let longest = unpatched.iter().chain(patched).copied().max().unwrap_or(0).max(1);
    let line = |label: &str, name: &str, bar: char, tokens: u64| {
        let filled = (tokens * WIDTH).div_ceil(longest) as usize;
        let bar = bar.to_string().repeat(filled);
        format!("{label:<11}{name:<10} {bar:<48} {:>5.1}K\n", tokens as f64 / 1_000.0)
    };
    let number = |request: usize| format!("request {}", request + 1);
    let is_alike = |(a, b): &(&u64, &u64)| a.abs_diff(**b) * 100 <= **a;
    let alike = unpatched.iter().zip(patched).take_while(is_alike).count();
    let mut chart = String::new();
    for (request, tokens) in unpatched.iter().enumerate().take(alike) {
        match request {
            _ if request == 0 || request + 1 == alike => chart += &line(&number(request), "both", '█', *tokens),
            1 => chart += "…\n",
            _ => {}
        }
    }
    for request in alike..unpatched.len().max(patched.len()) {
        if let Some(tokens) = unpatched.get(request) {
            chart += &line(&number(request), "unpatched", '░', *tokens);
        }
        if let Some(tokens) = patched.get(request) {
            chart += &line("", "patched", '█', *tokens);
        }
    }
    chart
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_drawn_to_one_scale() {
        insta::assert_snapshot!(bars(&[10_000, 48_000], &[10_000, 24_000, 500]), @r"
        request 1  both       ██████████                                        10.0K
        request 2  unpatched  ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░  48.0K
                   patched    ████████████████████████                          24.0K
                   patched    █                                                  0.5K
        ");
        insta::assert_snapshot!(bars(&[10_000, 11_000, 12_000, 48_000], &[10_001, 11_001, 12_001, 24_000]), @r"
        request 1  both       ██████████                                        10.0K
        …
        request 3  both       ████████████                                      12.0K
        request 4  unpatched  ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░  48.0K
                   patched    ████████████████████████                          24.0K
        ");
        assert_eq!(bars(&[], &[]), "");
    }
}
