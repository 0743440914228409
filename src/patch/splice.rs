/*!
Edits as splices of bytes: every byte outside the edits stays as it is.
*/

use super::syntax::Span;

/// One replacement in a module's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextEdit {
    /// The replaced bytes; empty for an insertion.
    pub span: Span,
    /// The new text.
    pub text: String,
}

/// Errors from combining edits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpliceError {
    /// Two edits touch the same bytes.
    #[error("two edits overlap at byte {0}")]
    Overlap(u32),
    /// An edit does not fit the text.
    #[error("an edit at bytes {}..{} does not fit the text", .0.lo, .0.hi)]
    OutOfText(Span),
}

/// Makes all edits. Insertions at the same place are made in the order given.
///
/// # Errors
/// If edits overlap or do not fit the text.
pub fn splice(text: &str, mut edits: Vec<TextEdit>) -> Result<String, SpliceError> {
    edits.sort_by_key(|edit| (edit.span.lo, edit.span.hi));
    let grown: usize = edits.iter().map(|edit| edit.text.len()).sum();
    let mut result = String::with_capacity(text.len() + grown);
    let mut done = 0;
    for edit in &edits {
        if (edit.span.lo as usize) < done {
            return Err(SpliceError::Overlap(edit.span.lo));
        }
        let kept = text.get(done..edit.span.lo as usize);
        let (Some(kept), Some(_)) = (kept, text.get(edit.span.range())) else {
            return Err(SpliceError::OutOfText(edit.span));
        };
        result.push_str(kept);
        result.push_str(&edit.text);
        done = edit.span.hi as usize;
    }
    result.push_str(&text[done..]);
    Ok(result)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn refuses_what_does_not_fit() {
        let edit = |lo, hi| TextEdit { span: Span::new(lo, hi), text: "x".to_owned() };
        assert_eq!(splice("abcdef", vec![edit(1, 4), edit(3, 5)]), Err(SpliceError::Overlap(3)));
        assert_eq!(splice("abc", vec![edit(2, 9)]), Err(SpliceError::OutOfText(Span::new(2, 9))));
        assert_eq!(splice("é", vec![edit(1, 1)]), Err(SpliceError::OutOfText(Span::new(1, 1))));
        assert_eq!(splice("ab", vec![edit(1, 1), edit(1, 1), edit(0, 1)]).as_deref(), Ok("xxxb"));
    }

    proptest! {
        #[test]
        fn splicing_back_restores(
            parts in prop::collection::vec(("[a-zé\u{1F600}]{0,6}", "[a-zé]{0,4}", "[A-Z]{0,9}"), 0..8),
            tail in "[a-z]{0,5}",
        ) {
            let (mut original, mut edited) = (String::new(), String::new());
            let (mut there, mut back) = (Vec::new(), Vec::new());
            for (kept, old, new) in &parts {
                original += kept;
                edited += kept;
                let span = |text: &str, length: usize| Span::new(text.len() as u32, (text.len() + length) as u32);
                there.push(TextEdit { span: span(&original, old.len()), text: new.clone() });
                back.push(TextEdit { span: span(&edited, new.len()), text: old.clone() });
                original += old;
                edited += new;
            }
            original += &tail;
            edited += &tail;
            prop_assert_eq!(splice(&original, there).unwrap(), edited.clone());
            prop_assert_eq!(splice(&edited, back).unwrap(), original);
        }
    }
}
