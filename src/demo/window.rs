//! A chart in one line of text: how full the window is at each request.

/// Columns from empty to full.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws a column for each request, as tall as its tokens are of the window's.
pub fn window(tokens: &[u64], of: u64) -> String {
    let top = LEVELS.len() as u64 - 1;
    let level = |tokens: &u64| (tokens * LEVELS.len() as u64 / of.max(1)).min(top);
    tokens.iter().map(|tokens| LEVELS[level(tokens) as usize]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_tall_as_the_window_is_full() {
        assert_eq!(window(&[0, 24, 25, 100, 199, 200, 900], 200), "▁▁▂▅███");
        assert_eq!((window(&[], 200), window(&[5], 0)), (String::new(), "█".to_owned()));
    }
}
