//! A chart in text: tokens of each request, unpatched and patched.

use std::fmt::Write as _;

/// Columns of the longest bar.
const WIDTH: u64 = 48;

/// Draws the tokens of each request of two conversations. A request that one of them does not have is left out there.
pub fn bars(unpatched: &[u64], patched: &[u64]) -> String {
    let longest = unpatched.iter().chain(patched).copied().max().unwrap_or(0).max(1);
    let mut chart = String::new();
    for request in 0..unpatched.len().max(patched.len()) {
        for (name, row) in [("unpatched", unpatched), ("patched", patched)] {
            let Some(tokens) = row.get(request).copied() else { continue };
            let label = if name == "unpatched" { format!("request {}", request + 1) } else { String::new() };
            let bar = if name == "unpatched" { '░' } else { '█' };
            let filled = (tokens * WIDTH).div_ceil(longest) as usize;
            // Writing to a string cannot fail.
            let _ =
                writeln!(chart, "{label:<11}{name:<10} {:<48} {:>5.1}K", bar.to_string().repeat(filled), tokens as f64 / 1_000.0);
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
        request 1  unpatched  ░░░░░░░░░░                                        10.0K
                   patched    ██████████                                        10.0K
        request 2  unpatched  ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░  48.0K
                   patched    ████████████████████████                          24.0K
                   patched    █                                                  0.5K
        ");
        assert_eq!(bars(&[], &[]), "");
    }
}
