/*!
Stems: by the script of a word, or by the languages that it may be of.

The Snowball stemmers do most of it. Where there is none, the most frequent endings are cut off, or a long word is cut short.
*/

use std::borrow::Cow;

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization;

use super::fold::fold_word;
use super::language::LanguageSet;
use super::small_words::Language;

/// Minimum number of letters of a stem, and of a stem that is one of several variants.
const MIN_STEM_LETTERS: usize = 2;
const MIN_VARIANT_LETTERS: usize = 3;

/// The stemmers; each is no more than a function.
pub(super) struct Stemmers {
    english: Stemmer,
    russian: Stemmer,
    greek: Stemmer,
    tamil: Stemmer,
    latin: Vec<(Language, Stemmer)>,
}

impl Default for Stemmers {
    fn default() -> Self {
        let latin = [
            (Language::German, Algorithm::German),
            (Language::Dutch, Algorithm::Dutch),
            (Language::Swedish, Algorithm::Swedish),
            (Language::Danish, Algorithm::Danish),
            (Language::Norwegian, Algorithm::Norwegian),
            (Language::French, Algorithm::French),
            (Language::Spanish, Algorithm::Spanish),
            (Language::Portuguese, Algorithm::Portuguese),
            (Language::Italian, Algorithm::Italian),
            (Language::Romanian, Algorithm::Romanian),
            (Language::Hungarian, Algorithm::Hungarian),
            (Language::Finnish, Algorithm::Finnish),
            (Language::Turkish, Algorithm::Turkish),
        ];
        Self {
            english: Stemmer::create(Algorithm::English),
            russian: Stemmer::create(Algorithm::Russian),
            greek: Stemmer::create(Algorithm::Greek),
            tamil: Stemmer::create(Algorithm::Tamil),
            latin: latin.into_iter().map(|(language, algorithm)| (language, Stemmer::create(algorithm))).collect(),
        }
    }
}

impl Stemmers {
    /// Returns the stem of an English word.
    pub fn english<'a>(&self, word: &'a str) -> Cow<'a, str> {
        self.english.stem(word)
    }

    /// Returns the stems of a word in each of these languages: with its marks, and without, as many type it.
    pub fn of_languages(&self, typed: &str, folded: &str, languages: LanguageSet) -> Vec<String> {
        let mut stems = Vec::new();
        if languages.is_empty() || folded.len() <= MIN_VARIANT_LETTERS || folded.bytes().any(|byte| byte.is_ascii_digit()) {
            return stems;
        }
        // The plural of -ão is -ões.
        let singular = folded.strip_suffix("oes").map(|bare| format!("{bare}ao"));
        let lower: String = if typed.is_ascii() { folded.to_owned() } else { typed.to_lowercase().nfc().collect() };
        for (language, stemmer) in self.latin.iter().filter(|(language, _)| languages.has(*language)) {
            stems.push(fold_word(&stemmer.stem(&lower)));
            if lower != folded {
                stems.push(stemmer.stem(folded).into_owned());
            }
            if let Some(singular) = singular.as_ref().filter(|_| *language == Language::Portuguese) {
                stems.push(stemmer.stem(singular).into_owned());
            }
        }
        for (language, endings) in [
            (Language::Polish, SLAVIC_ENDINGS),
            (Language::Czech, SLAVIC_ENDINGS),
            (Language::Croatian, SLAVIC_ENDINGS),
            (Language::Baltic, BALTIC_ENDINGS),
            (Language::Indonesian, INDONESIAN_ENDINGS),
        ] {
            if languages.has(language) {
                let bare = (language == Language::Indonesian).then(|| without_indonesian_prefix(folded));
                stems.push(without_ending(bare.as_deref().unwrap_or(folded), endings, MIN_VARIANT_LETTERS + 1).to_owned());
            }
        }
        stems.retain(|stem| stem.len() >= MIN_VARIANT_LETTERS && stem.is_ascii());
        stems
    }
}

/// Endings of Slavic languages in Latin letters, without marks; longer ones come first.
const SLAVIC_ENDINGS: &str = "iejszych iejszego iami iach iego iemu ovach oveho ovych ovym ostmi ostech ami ach och ech ich ych ego emu eho \
    iem iom imi ymi ima ama owi ovi owy owe owa ovy ove ova ovo ou ow ov om em im ym ej oj ie ia io iu ii aja eja a e i o u y";
/// Endings of Lithuanian, Latvian and Estonian.
const BALTIC_ENDINGS: &str = "iamoji imuose omuose iuose iams iais iose oms ais uose ose imas imo imai imu amas iem iemu am em ius ias ios \
    iu io ia as os es is us ys ai ei ui am a e i o u y s";
/// Endings of Indonesian and Malay.
const INDONESIAN_ENDINGS: &str = "kannya annya kanlah nya kan lah kah an i";
/// Prefixes of Indonesian and Malay.
const INDONESIAN_PREFIXES: &str = "peng meng mem men pem pen ber ter per me di pe";
/// Endings of Hindi, of Serbian, of Bengali, of Georgian and of Armenian.
const HINDI_ENDINGS: &str = "ियों ियां ियाँ ाओं ाएं ुओं ुएं ाना ाने ानी ाता ाती ाते ों ें ीं ां िए ाई ाए ो े ू ु ी ि ा";
const SERBIAN_ENDINGS: &str = "овима евима ама има ом ем ов ев ог ег их им ој и у а е о";
const BENGALI_ENDINGS: &str = "গুলিতে গুলোতে গুলির গুলোর গুলি গুলো টির টিতে টিকে দের য়ের ের তে কে টি টা র ে";
const GEORGIAN_ENDINGS: &str = "ებისთვის ებისგან ებთან ებიდან ებამდე ებში ებზე ებით ებად ების ებმა ებს ები ისთვის ისგან იდან ასთან თან ში ზე \
    ით ის ას ად მა ს ი ა ე ო";
const ARMENIAN_ENDINGS: &str = "ությունների ությունները ություններ ության ությունը ություն ներում ներից ներով ների ները ներն ներ այի այով այից այում այն երի երը եր ում ից ով ի ը ն ա";

/// Returns the stem of a folded word that is not in Latin letters alone.
pub(super) fn script_stem<'a>(stemmers: &Stemmers, folded: &'a str) -> Cow<'a, str> {
    let cut = |endings, least| Cow::Borrowed(without_ending(folded, endings, least));
    match folded.chars().next().unwrap_or_default() {
        '\u{400}'..='\u{52f}' if folded.contains(['ј', 'љ', 'њ', 'ћ', 'ђ', 'џ']) => {
            cut(SERBIAN_ENDINGS, MIN_VARIANT_LETTERS)
        }
        '\u{400}'..='\u{52f}' => match cyrillic(folded) {
            Cow::Owned(russian) => Cow::Owned(stemmers.russian.stem(&russian).into_owned()),
            Cow::Borrowed(_) => stemmers.russian.stem(folded),
        },
        '\u{370}'..='\u{3ff}' => stemmers.greek.stem(folded),
        '\u{b80}'..='\u{bff}' => stemmers.tamil.stem(folded),
        '\u{600}'..='\u{77f}' => Cow::Borrowed(arabic(folded)),
        '\u{900}'..='\u{97f}' => cut(HINDI_ENDINGS, MIN_STEM_LETTERS),
        '\u{980}'..='\u{9ff}' => cut(BENGALI_ENDINGS, MIN_STEM_LETTERS),
        '\u{10a0}'..='\u{10ff}' => cut(GEORGIAN_ENDINGS, MIN_VARIANT_LETTERS),
        '\u{530}'..='\u{58f}' => cut(ARMENIAN_ENDINGS, MIN_VARIANT_LETTERS),
        _ => Cow::Borrowed(folded),
    }
}

/// Returns other forms of a folded word that is not in Latin letters.
pub(super) fn script_variants(folded: &str) -> Vec<String> {
    match folded.chars().next().unwrap_or_default() {
        '\u{590}'..='\u{5ff}' => hebrew(folded),
        '\u{600}'..='\u{77f}' => {
            let bare = folded.strip_prefix(['و', 'ف', 'ب', 'ك', 'ل', 'س']).map(arabic);
            bare.filter(|bare| bare.chars().count() >= MIN_VARIANT_LETTERS).map(str::to_owned).into_iter().collect()
        }
        // The article of Bulgarian and Macedonian, behind the word.
        '\u{400}'..='\u{52f}' => {
            let bare = ["овете", "евете", "ите", "ете", "ове", "ата", "ята", "ът", "ят", "та", "то", "те"]
                .iter()
                .find_map(|end| folded.strip_suffix(end));
            let bare = bare.filter(|bare| bare.chars().count() >= MIN_VARIANT_LETTERS);
            bare.map(|bare| cyrillic(bare).trim_end_matches(['а', 'о', 'и', 'е', 'я']).to_owned()).into_iter().collect()
        }
        // What these have behind their words is long, and of many kinds.
        '\u{900}'..='\u{9ff}' | '\u{b80}'..='\u{bff}' => beginning(folded, 6),
        '\u{a00}'..='\u{dff}' => beginning(folded, 4),
        '\u{10a0}'..='\u{10ff}' | '\u{530}'..='\u{58f}' => beginning(folded, 5),
        '\u{1200}'..='\u{139f}' => beginning(folded, 3),
        _ => Vec::new(),
    }
}

/// Returns the first letters of a word that has more.
fn beginning(word: &str, letters: usize) -> Vec<String> {
    word.char_indices().nth(letters).map(|(end, _)| word[..end].to_owned()).into_iter().collect()
}

/// Removes the first of these endings that leaves enough letters.
fn without_ending<'a>(word: &'a str, endings: &str, least: usize) -> &'a str {
    let bare = endings.split_whitespace().filter_map(|ending| word.strip_suffix(ending));
    let mut enough = bare.filter(|bare| bare.chars().nth(least - 1).is_some());
    enough.next().unwrap_or(word)
}

/// Removes up to two prefixes of an Indonesian word.
fn without_indonesian_prefix(word: &str) -> String {
    let mut bare = word.to_owned();
    for _ in 0..2 {
        // An s is lost in this one.
        if let Some(rest) = bare.strip_prefix("meny").or_else(|| bare.strip_prefix("peny")) {
            bare = format!("s{rest}");
        }
        let prefixes = INDONESIAN_PREFIXES.split_whitespace().filter_map(|prefix| bare.strip_prefix(prefix));
        match prefixes.filter(|rest| rest.len() > MIN_VARIANT_LETTERS).map(str::to_owned).next() {
            Some(rest) => bare = rest,
            None => break,
        }
    }
    bare
}

/// Writes a Ukrainian, Belarusian or Bulgarian word with Russian letters, whose endings the stemmer knows.
fn cyrillic(word: &str) -> Cow<'_, str> {
    // In Bulgarian it is a vowel. In Russian it stands before one.
    let has_vowel = word.contains('ъ')
        && word.split('ъ').skip(1).any(|rest| !rest.starts_with(['а', 'е', 'и', 'о', 'у', 'ю', 'я', 'э', 'і', 'є', 'ї']));
    if !has_vowel && !word.contains(['і', 'є', 'ґ', 'ѝ']) {
        return Cow::Borrowed(word);
    }
    let letter = |letter| match letter {
        'і' | 'ѝ' => 'и',
        'є' => 'е',
        'ґ' => 'г',
        'ъ' if has_vowel => 'о',
        other => other,
    };
    Cow::Owned(word.chars().map(letter).collect())
}

/// The light stemmer of Larkey, Ballesteros and Connell ("light10"): the article and the most frequent endings are left out. The
/// one of Snowball goes further, and tells forms of one word apart by what it takes for prefixes.
fn arabic(folded: &str) -> &str {
    let has = |word: &str, letters: usize| word.chars().nth(letters - 1).is_some();
    let article = ["وال", "بال", "كال", "فال", "لل", "ال"].iter().find_map(|prefix| folded.strip_prefix(prefix));
    // An "and" alone is left to the variants: many words begin so.
    let mut stem = article.filter(|bare| has(bare, 2)).unwrap_or(folded);
    for ending in ["ها", "ان", "ات", "ون", "ين", "يه", "ه", "ي"] {
        stem = stem.strip_suffix(ending).filter(|bare| has(bare, 2)).unwrap_or(stem);
    }
    stem
}

/// Returns a Hebrew word without the words that are written to it (the, and, in, to, from, that, as), and without its ending.
fn hebrew(folded: &str) -> Vec<String> {
    let has = |word: &str, letters: usize| word.chars().nth(letters - 1).is_some();
    let mut forms = vec![folded];
    while let Some(bare) = forms.last().and_then(|word| word.strip_prefix(['ה', 'ו', 'ב', 'ל', 'מ', 'ש', 'כ'])) {
        if !has(bare, 3) || forms.len() == 4 {
            break;
        }
        forms.push(bare);
    }
    let ends = ["יות", "ימ", "ות", "ה", "ת", "י"];
    let stems = forms.iter().filter_map(|form| ends.iter().find_map(|end| form.strip_suffix(end)).filter(|bare| has(bare, 3)));
    let stems: Vec<&str> = stems.collect();
    forms.iter().skip(1).chain(&stems).map(|form| (*form).to_owned()).collect()
}
