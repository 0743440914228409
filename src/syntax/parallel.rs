/*!
Parsing a large module on several processors.

The text is cut between statements, and each part is parsed by itself. This gives the same result as parsing the whole:

- A part is only used if its last item ends exactly at the cut, with the `;` before it. Tokens are read from left to right, so up
  to there they are those of the whole.
- A statement that ends in `;` is not continued by the next part, since that starts with a word that continues nothing (`var`,
  `function`). So the next part starts at the next item of the whole.
- If any part does not parse, or ends elsewhere (the cut was in a string, a comment, a function), the whole is parsed in one
  piece, which also gives the right error.
*/

use memchr::memmem;

use super::{Goal, Item, Span, SyntaxError, deep_thread, for_each_item, for_each_item_in};

/// Minimum size of a text that is parsed in parts, in bytes. Below it, threads cost more than they save.
const MIN_PARALLEL_BYTES: usize = 1 << 20;
/// Maximum number of parts; more are not worth their threads.
const MAX_PARTS: usize = 4;

/// Calls `visit` with every item and a separate state for each part of the text; returns the states in the order of the text.
///
/// # Errors
/// The first [`SyntaxError`].
pub fn fold_items<T: Send>(
    text: &str,
    goal: Goal,
    start: impl Fn() -> T + Sync,
    visit: impl Fn(&mut T, Item<'_>) + Sync,
) -> Result<Vec<T>, SyntaxError> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let parts = if text.len() < MIN_PARALLEL_BYTES { Vec::new() } else { split_at_statements(text, processors.min(MAX_PARTS)) };
    if let Some(states) = in_parts(text, &parts, goal, &start, &visit) {
        return Ok(states);
    }
    let mut state = start();
    for_each_item(text, goal, |item| visit(&mut state, item))?;
    Ok(vec![state])
}

/// The states of all parts, or `None` if the text must be read in one piece.
fn in_parts<T: Send>(
    text: &str,
    parts: &[Span],
    goal: Goal,
    start: &(impl Fn() -> T + Sync),
    visit: &(impl Fn(&mut T, Item<'_>) + Sync),
) -> Option<Vec<T>> {
    if parts.len() < 2 {
        return None;
    }
    let read = |part: Span| {
        let mut state = start();
        let mut end = part.lo;
        let parsed = for_each_item_in(text, part, goal, &mut |item| {
            end = item.span.hi;
            visit(&mut state, item);
        });
        // Behind the last part there may be white space and comments.
        (parsed.is_ok() && (end == part.hi || part.hi as usize == text.len())).then_some(state)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = parts.iter().map(|part| deep_thread().spawn_scoped(scope, || read(*part))).collect();
        let results = threads.into_iter().map(|thread| thread.ok()?.join().ok()?);
        // All threads are joined, also when one of them has failed.
        results.collect::<Vec<Option<T>>>().into_iter().collect()
    })
}

/// Cuts the text into about equal parts, each at a place where a statement seems to start.
fn split_at_statements(text: &str, parts: usize) -> Vec<Span> {
    let mut cuts = vec![0];
    for part in 1..parts {
        let from = (text.len() / parts * part).max(cuts[part - 1]);
        let next = |word: &[u8]| memmem::find(&text.as_bytes()[from..], word).map(|at| from + at + 1);
        // A long string or comment would spoil the cut, not the result.
        let nearest = [b";var ".as_slice(), b";function ", b";async function"].into_iter().filter_map(next).min();
        cuts.push(nearest.unwrap_or(text.len()));
    }
    cuts.push(text.len());
    cuts.dedup();
    cuts.windows(2).map(|pair| Span::new(pair[0] as u32, pair[1] as u32)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(text: &str, states: &[Vec<Span>]) -> Vec<String> {
        states.iter().flatten().map(|span| text[span.range()].to_owned()).collect()
    }

    /// The items read in parts, if possible, and the items read in one piece.
    fn both(text: &str, parts: &[Span]) -> (Option<Vec<String>>, Vec<String>) {
        let collect = |found: &mut Vec<Span>, item: Item<'_>| found.push(item.span);
        let parted = in_parts(text, parts, Goal::Module, &Vec::new, &collect);
        let mut whole = Vec::new();
        for_each_item(text, Goal::Module, |item| whole.push(item.span)).expect("JavaScript");
        (parted.map(|states| sources(text, &states)), sources(text, &[whole]))
    }

    #[test]
    fn parts_give_what_the_whole_gives() {
        let text = "import a from'a';var b=1;function c(){return 1}var d=2;var e=`;var f`;async function g(){}\n// end\n";
        for parts in 2..6 {
            let (parted, whole) = both(text, &split_at_statements(text, parts));
            assert!(parted.is_none_or(|parted| parted == whole), "{parts}");
        }
        let (parted, whole) = both(text, &split_at_statements(text, 2));
        assert_eq!(parted, Some(whole));
    }

    #[test]
    fn a_cut_in_the_wrong_place_is_noticed() {
        // In a string, a template, a line comment, a block comment, a regular expression, a function, a class.
        for text in [
            "var a='x;var b';var c;",
            "var a=`x;var b`;var c;",
            "var a;// x;var b=1\nvar c;",
            "var a;/* x;var b */var c;",
            "var a=/x;var b/;var c;",
            "function a(){x;var b}",
            "{x;var b}",
        ] {
            let at = text.find(";var b").expect("a cut") as u32 + 1;
            let parts = [Span::new(0, at), Span::new(at, text.len() as u32)];
            assert_eq!(both(text, &parts).0, None, "{text}");
        }
    }

    #[test]
    fn errors_are_those_of_the_whole() {
        let filler = "var filler=1;".repeat(MIN_PARALLEL_BYTES / 8);
        let text = format!("{filler}\nvar broken=;{filler}");
        let error = fold_items(&text, Goal::Module, || (), |(), _| ()).expect_err("not JavaScript");
        assert_eq!((error.line, error.column), (2, 12));
        let count = |state: &mut usize, _: Item<'_>| *state += 1;
        let counts = fold_items(&filler, Goal::Module, || 0, count).expect("JavaScript");
        assert_eq!(counts.iter().sum::<usize>(), MIN_PARALLEL_BYTES / 8);
    }
}
