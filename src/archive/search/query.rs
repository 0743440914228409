/*!
What a user types, made into what the index is asked for.

Nothing that is typed becomes syntax of the index by accident: a query is cut into the same words as texts are, and those have letters
and digits only. What has a meaning is `"quotes"` around words that stand together, and `*` behind the begin of a word.
*/

use super::tokens::Tokenizer;

/// English words that say nothing of what is looked for; left out of a query that has others.
const EMPTY: &str = "a about again all also am an and any anything are as ask at be because been being between both but by can \
    could d did do does doing don done down each ever every few for from further get got had has have having he her here him his \
    how i if in into is it its just ll m me might more most my myself no nor not now of off on once one or other our out over own \
    re s same she should so some someth something such t than that the their them then there these they thing this those through \
    to too under until up us ve very was we were what when where which while who whom whose why will with would you your yours";

/// The words of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Words and names; each is looked for on its own.
    pub words: Vec<String>,
    /// Begins of words.
    pub prefixes: Vec<String>,
    /// Words that have to stand together.
    pub phrases: Vec<Vec<String>>,
}

impl Terms {
    /// Reads a query.
    pub fn of(query: &str, tokenizer: &Tokenizer) -> Self {
        let mut terms = Self::default();
        let mut empty = Vec::new();
        // Between quotes is every other piece; the last one is not, when nothing closes it.
        let pieces: Vec<&str> = query.split('"').collect();
        for (at, piece) in pieces.iter().enumerate() {
            if at % 2 == 1 && at + 1 < pieces.len() {
                let mut words = Vec::new();
                tokenizer.tokens(piece, &mut |token| words.push(token.word));
                if words.len() > 1 {
                    terms.phrases.push(words);
                } else {
                    terms.words.extend(words);
                }
                continue;
            }
            tokenizer.tokens(piece, &mut |token| {
                let typed = piece[token.range.clone()].to_lowercase();
                let is_begin = piece[token.range.end..].starts_with('*') && token.range.len() > 1;
                if is_begin {
                    // A begin has no ending that could be cut.
                    let begin = if token.is_whole { token.word } else { typed };
                    terms.prefixes.push(begin);
                } else if is_empty(&typed) {
                    empty.push(token.word);
                } else {
                    terms.words.push(token.word);
                }
            });
        }
        if terms.is_nothing() {
            terms.words = empty;
        }
        for list in [&mut terms.words, &mut terms.prefixes] {
            let mut seen = std::collections::HashSet::new();
            list.retain(|word| seen.insert(word.clone()));
        }
        terms
    }

    /// Whether nothing is looked for.
    pub fn is_nothing(&self) -> bool {
        self.words.is_empty() && self.prefixes.is_empty() && self.phrases.is_empty()
    }

    /// As FTS5 reads it, in these columns (all, where there are none): any of the words, all of the phrases.
    pub fn expression(&self, columns: &[&str]) -> Option<String> {
        let quoted = |word: &String| format!("\"{word}\"");
        let any: Vec<String> = self.words.iter().map(quoted).chain(self.prefixes.iter().map(|word| quoted(word) + "*")).collect();
        let all: Vec<String> = self.phrases.iter().map(|words| format!("\"{}\"", words.join(" "))).collect();
        let any = (!any.is_empty()).then(|| any.join(" OR "));
        let all = (!all.is_empty()).then(|| all.join(" AND "));
        let expression = match (any, all) {
            (None, None) => return None,
            (Some(any), None) => any,
            (None, Some(all)) => all,
            (Some(any), Some(all)) => format!("({all}) OR (({all}) AND ({any}))"),
        };
        Some(if columns.is_empty() { expression } else { format!("{{{}}} : ({expression})", columns.join(" ")) })
    }

    /// Whether a word of a text is one that is looked for.
    pub fn has(&self, word: &str) -> bool {
        self.words.iter().chain(self.phrases.iter().flatten()).any(|term| term == word)
            || self.prefixes.iter().any(|prefix| word.starts_with(prefix.as_str()))
    }
}

/// Whether a word, in lower case, says nothing of what is looked for.
pub(super) fn is_empty(word: &str) -> bool {
    EMPTY.split_ascii_whitespace().any(|empty| empty == word)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn expression(query: &str) -> String {
        Terms::of(query, &Tokenizer::default()).expression(&[]).unwrap_or_default()
    }

    #[test]
    fn queries() {
        for (query, expected) in [
            ("why does the parser hang", r#""parser" OR "hang""#),
            ("max_retries", r#""max" OR "retri" OR "maxretries""#),
            ("\"connection reset by peer\" upload", r#"("connect reset by peer") OR (("connect reset by peer") AND ("upload"))"#),
            ("ECONN* reset", r#""reset" OR "econn"*"#),
            ("what is it", r#""what" OR "is" OR "it""#),
            ("NOT (a OR b) NEAR col:x^2 --", r#""b" OR "near" OR "col" OR "x" OR "2""#),
            ("\"unclosed quote", r#""unclos" OR "quot""#),
            ("\"one\" \"\"", r#""one""#),
            ("* \" ' ; DROP TABLE", r#""drop" OR "tabl""#),
            ("", ""),
        ] {
            assert_eq!(expression(query), expected, "{query}");
        }
        let terms = Terms::of("parser hang", &Tokenizer::default());
        assert_eq!(terms.expression(&["prompt", "answer"]).as_deref(), Some(r#"{prompt answer} : ("parser" OR "hang")"#));
    }

    proptest! {
        #[test]
        fn sqlite_reads_every_expression(query in r#".{0,40}|["*a-z():^+ -]{0,40}"#) {
            let db = rusqlite::Connection::open_in_memory().expect("a database");
            db.execute_batch("CREATE VIRTUAL TABLE words USING fts5(prompt, content='', tokenize = \"ascii tokenchars '_'\")").expect("FTS5");
            if let Some(expression) = Terms::of(&query, &Tokenizer::default()).expression(&["prompt"]) {
                let found = db.query_row("SELECT count(*) FROM words WHERE words MATCH ?1", [&expression], |row| row.get::<_, i64>(0));
                prop_assert!(found.is_ok(), "{query:?}: {expression}: {found:?}");
            }
        }
    }
}
