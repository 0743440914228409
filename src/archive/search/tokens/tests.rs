use proptest::prelude::*;

use super::*;

fn join(text: &str) -> String {
    Tokenizer::default().join(text)
}

/// Returns the words of a text without their variants.
fn words(text: &str) -> String {
    let mut words = Vec::new();
    Tokenizer::default().tokens(text, &mut |token| words.extend((!token.is_variant).then_some(token.word)));
    words.join(" ")
}

#[test]
fn prose_and_code() {
    for (text, words) in [
        ("The parsers were running.", "the parser were run"),
        ("MAX_RETRIES maxRetries max-retries", "max retri maxretries max retri maxretries max retri maxretries"),
        ("src/archive/store.rs:42", "src archiv store rs storers 42"),
        ("parseHTTPHeader", "pars http header parsehttpheader"),
        ("error[E0308] in 2.1.330", "error e0308 in 2 1 330 2_1_330"),
        ("1.12 is not 11.2", "1 12 1_12 is not 11 2 11_2"),
        ("don't, parser's, it’s", "don parser it"),
        ("foo::bar->baz()", "foo bar baz"),
        ("--no-smoke …", "no smoke nosmoke"),
        ("日本語とRust", "日本 本語 語と rust"),
        ("'quoted' -- _private_", "quot privat"),
        ("", ""),
    ] {
        assert_eq!(join(text), words, "{text}");
    }
}

#[test]
fn spellings_of_a_word_are_one() {
    for (one, other) in [
        ("naïve Größe", "naive grosse"),
        ("re\u{301}sume\u{301}", "résumé"),
        ("ŁĄCZ Đã sửa", "lacz da sua"),
        ("İSTANBUL ışık", "istanbul isik"),
        ("ΒΆΣΗ λόγος", "βαση λογοσ"),
        ("ЁМКОСТЬ", "емкость"),
        ("ＡＰＩ ｶﾞﾀｶﾅ", "api ガタカナ"),
        ("ﬁle œuvre", "file oeuvre"),
        ("デ\u{3099}ータ", "デ\u{3099}ータ"),
        ("\u{1112}\u{1161}\u{11ab}글", "한글"),
        ("שָׁלוֹם", "שלום"),
        ("مُحَمَّـــد أحمد", "محمد احمد"),
        ("👍🏽 ❤️", "👍 ❤"),
        ("Daten\u{ad}bank", "datenbank"),
    ] {
        assert_eq!(words(one), words(other), "{one}");
    }
    assert_eq!(join("й и"), "й и", "a letter of its own");
}

#[test]
fn what_is_one_word() {
    for (text, expected) in [
        ("Ship 🚀👩\u{200d}💻 now", "ship 🚀 👩\u{200d}💻 now"),
        ("🇩🇪🇫🇷", "🇩🇪 🇫🇷"),
        ("क्षत्रिय", "क्षत्रिय"),
        ("می\u{200c}شود", "مي شود ميشود"),
        ("→ © ™ ─", ""),
    ] {
        assert_eq!(words(text), expected, "{text}");
    }
    let word = "ж".repeat(MAX_TOKEN_LETTERS);
    assert_eq!(join(&word), word, "letters count, not bytes");
    assert_eq!(join(&format!("{word}ж")), "");
}

#[test]
fn texts_in_other_languages_have_variants() {
    for (text, word) in [
        ("Die Ausnahmen werden nicht behandelt", "ausnahm"),
        ("Warum schlägt die Datenbankverbindung fehl?", "verbindung"),
        ("Los servicios de la aplicación no responden", "servici"),
        ("Błąd połączeniami z bazą", "polaczen"),
    ] {
        assert!(join(text).split(' ').any(|known| known == word), "{word} in {}", join(text));
    }
    for text in [
        "The database connection fails when we check the permissions of the user.",
        "let mut a = la.de(le); // die on error, el as no",
        "README.md src/de/la/en/es.json",
    ] {
        let mut variants = Vec::new();
        Tokenizer::default().tokens(text, &mut |token| variants.extend(token.is_variant.then_some(token.word)));
        assert!(variants.is_empty(), "{variants:?}");
    }
}

proptest! {
    #[test]
    fn words_have_letters_and_digits_and_stand_where_they_say(
        text in "(\\PC|\\s){0,60}|[a-zA-Z0-9_.'-]{0,60}|[A-Za-zÄäßéİıлЁ\u{301}\u{3099}\u{200c}\u{200d}क्षิ์ガｶﾞ한ا🚀👩💻🏽🇩️’-]{0,60}",
        is_query in any::<bool>(),
    ) {
        let mut last = 0;
        let check = &mut |token: Token| {
            assert!(token.word.chars().all(|c| !c.is_ascii() || c.is_ascii_alphanumeric() || c == '_'), "{token:?}");
            assert!(!token.word.chars().any(char::is_whitespace), "{token:?}");
            assert!(!token.word.is_empty() && text.get(token.range.clone()).is_some_and(|piece| !piece.is_empty()), "{token:?}");
            assert!(token.is_whole || token.is_variant || token.range.start >= last, "{token:?}");
            last = token.range.start;
        };
        if is_query {
            Tokenizer::default().query_tokens(&text, &QueryLanguage::of(&text), check);
        } else {
            Tokenizer::default().tokens(&text, check);
        }
    }

    #[test]
    fn a_query_has_the_words_of_the_text(text in "\\PC{0,40}|[a-zA-Z äöüßéèąłøåñ'-]{0,60}") {
        let (mut of_text, mut of_query) = (Vec::new(), Vec::new());
        let tokenizer = Tokenizer::default();
        tokenizer.tokens(&text, &mut |token| of_text.extend((!token.is_variant).then_some(token.word)));
        tokenizer.query_tokens(&text, &QueryLanguage::of(&text), &mut |token| of_query.extend((!token.is_variant).then_some(token.word)));
        prop_assert_eq!(of_text, of_query);
    }

    #[test]
    fn folding_is_done_once(text in "\\PC{0,30}") {
        let folded = fold_word(&text);
        prop_assert_eq!(fold_word(&folded), folded);
    }
}

// A case takes forty times as long as one of the above.
proptest! {
    #![proptest_config(ProptestConfig::with_cases(ctxbridge_testkit::share_of(256)))]

    #[test]
    fn any_long_text_will_do(parts in proptest::collection::vec("\\PC{0,8}|der|die|и|[a-z]{1,9}|\\n|日本|[äß]{3}", 0..900)) {
        Tokenizer::default().join(&parts.join(" "));
        Tokenizer::default().join(&parts.concat());
    }
}
