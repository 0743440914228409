//! Tells if a text asks something, and about the past, in the languages that most people write.

const QUESTIONS: &str = "what why how which where when who whose whom \
    was warum wieso weshalb wie welche welcher welches welchen welchem wo wann wer wen womit wodurch \
    pourquoi comment quel quelle quels quelles quand où combien quoi \
    qué cuál cuáles cómo cuándo dónde quién cuánto cuántos por \
    qual quais como quando onde quem quanto perché quale quali dove chi \
    почему зачем как какой какая какие где когда кто сколько";

const PAST: &str = "did was were had last earlier previously again before remember already ago yesterday decided ended chose happened said told came \
    went turned used \
    war waren wurde wurden hatte hatten haben habe hat damals zuletzt vorhin gestern schon wieder \
    avait avaient était étaient avons avez ont été hier déjà encore dernier dernière \
    fue fueron era eran hicimos hubo tenía teníamos decidimos elegimos vimos ayer última último antes \
    foi foram tinha fizemos ontem abbiamo aveva fatto ieri \
    был была было были мы вчера раньше";

/// Endings and words in scripts without spaces.
const ASIAN_QUESTIONS: [&str; 20] = [
    "为什么",
    "什么",
    "怎么",
    "哪",
    "多少",
    "如何",
    "为何",
    "吗",
    "為什麼",
    "什麼",
    "怎麼",
    "なぜ",
    "どう",
    "何",
    "どの",
    "どこ",
    "いつ",
    "왜",
    "어떻게",
    "무엇",
];
const ASIAN_PAST: [&str; 14] =
    ["了", "之前", "当时", "上次", "昨天", "曾", "ました", "でした", "だった", "した", "前回", "昨日", "했", "었"];

fn has_word(text: &str, list: &str) -> bool {
    let lower = text.to_lowercase();
    lower
        .split(|c: char| !c.is_alphabetic())
        .filter(|word| !word.is_empty())
        .any(|word| list.split_whitespace().any(|known| known == word))
}

/// `true` if a text asks something.
pub(super) fn is_question(text: &str) -> bool {
    text.contains(['?', '？', '؟', '\u{37e}'])
        || has_word(text, QUESTIONS)
        || ASIAN_QUESTIONS.iter().any(|word| text.contains(word))
}

/// `true` if a text speaks of what was.
pub(super) fn is_of_past(text: &str) -> bool {
    has_word(text, PAST) || ASIAN_PAST.iter().any(|word| text.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_the_past_are_told_in_some_languages() {
        for text in [
            "What did we decide?",
            "Warum haben wir das so gemacht",
            "为什么当时用了缓存",
            "なぜ削除しましたか",
            "¿qué hicimos ayer?",
        ] {
            assert!(is_question(text) && is_of_past(text), "{text}");
        }
        for text in ["Add a trash folder", "run all tests", "テストを実行して"] {
            assert!(!is_question(text) && !is_of_past(text), "{text}");
        }
    }
}
