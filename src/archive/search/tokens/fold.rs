/*!
Folding: different spellings of a word become one.

Compatible forms are one (NFKC), case does not matter, and marks are left out where people leave them out: in Latin, Greek, Hebrew
and Arabic. Marks that are letters stay: й, kana with a sound mark, and the vowels of India and Thailand.
*/

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;
use unicode_properties::UnicodeEmoji;

const VARIATION_SELECTOR_16: char = '\u{fe0f}';
const ZWJ: char = '\u{200d}';

/// `true` for marks that belong to the character before them.
pub(in crate::search) fn is_mark(character: char) -> bool {
    !character.is_ascii() && is_combining_mark(character)
}

/// `true` for characters that are not seen, and stand inside of words: joiners and soft hyphens.
pub(super) fn is_ignorable(character: char) -> bool {
    matches!(character, '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}')
}

/// `true` if all letters of a folded word are Latin.
pub(super) fn is_latin(folded: &str) -> bool {
    folded.is_ascii() || folded.chars().all(|character| matches!(character, '\0'..='\u{24f}' | '\u{1e00}'..='\u{1eff}'))
}

/// Folds a word. Characters that are neither letters, digits nor marks are left out.
pub(in crate::search) fn fold_word(word: &str) -> String {
    if word.is_ascii() {
        return word.to_ascii_lowercase();
    }
    let mut folded = String::with_capacity(word.len());
    let mut base = '\0';
    let mut must_compose = false;
    for character in word.nfkd().flat_map(char::to_lowercase) {
        if is_mark(character) {
            if keeps_mark(base, character) {
                must_compose = true;
                folded.push(character);
            }
            continue;
        }
        base = if character.is_alphanumeric() { character } else { '\0' };
        if character.is_ascii() {
            if character.is_alphanumeric() {
                folded.push(character);
            }
        } else if let Some(letters) = other_spelling(character) {
            folded.push_str(letters);
        } else if let Some(digit) = digit(character) {
            base = digit;
            folded.push(digit);
        } else if character.is_alphanumeric() {
            must_compose |= matches!(character, '\u{1100}'..='\u{11ff}');
            folded.push(character);
        }
    }
    if must_compose { folded.nfc().collect() } else { folded }
}

/// Folds all words of a text, and leaves what is between them.
pub(crate) fn fold_text(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let mut folded = String::with_capacity(text.len());
    let mut start = 0;
    let is_in_word =
        |c: char| c.is_alphanumeric() || !c.is_ascii() && (is_mark(c) || is_ignorable(c) && c != '\u{200b}' && c != '\u{200c}');
    for (at, character) in text.char_indices().filter(|(_, character)| !is_in_word(*character)) {
        folded.push_str(&fold_word(&text[start..at]));
        folded.push(character);
        start = at + character.len_utf8();
    }
    folded + &fold_word(&text[start..])
}

/// `true` if a mark makes another letter of its base.
fn keeps_mark(base: char, mark: char) -> bool {
    match base {
        'и' | 'у' => mark == '\u{306}',
        // Letters of Indic and other Brahmic scripts: all but the dot below, which many leave out.
        '\u{900}'..='\u{dff}' => !matches!(mark, '\u{93c}' | '\u{9bc}' | '\u{a3c}' | '\u{abc}' | '\u{b3c}' | '\u{cbc}'),
        '\u{e00}'..='\u{109f}' | '\u{1700}'..='\u{17ff}' | '\u{1900}'..='\u{1cff}' | '\u{a800}'..='\u{abff}' => true,
        '\u{3040}'..='\u{30ff}' => true,
        '\u{1100}'..='\u{11ff}' => true,
        _ => false,
    }
}

/// Returns the usual letters for those that do not decompose.
fn other_spelling(character: char) -> Option<&'static str> {
    Some(match character {
        'ß' => "ss",
        'æ' => "ae",
        'œ' => "oe",
        'ø' => "o",
        'ł' => "l",
        'đ' | 'ð' => "d",
        'ħ' => "h",
        'ŧ' => "t",
        'þ' => "th",
        'ŋ' => "n",
        'ı' => "i",
        'ĸ' => "k",
        'ɓ' => "b",
        'ɗ' => "d",
        'ƙ' => "k",
        'ə' => "e",
        'ς' => "σ",
        // Forms of Arabic letters: Persian and Urdu write some of them with others; the tatweel only stretches.
        'ـ' => "",
        'ٱ' => "ا",
        'ى' | 'ی' | 'ې' | 'ے' => "ي",
        'ک' | 'ڪ' => "ك",
        'ة' | 'ہ' | 'ۀ' | 'ۃ' | 'ە' | 'ھ' => "ه",
        // Hebrew letters at the end of a word.
        'ך' => "כ",
        'ם' => "מ",
        'ן' => "נ",
        'ף' => "פ",
        'ץ' => "צ",
        'և' => "եւ",
        _ => return None,
    })
}

/// Returns a decimal digit of another script.
fn digit(character: char) -> Option<char> {
    const ZEROS: [u32; 14] = [0x660, 0x6f0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xe50, 0xed0, 0x17e0];
    let code = u32::from(character);
    let zero = ZEROS.into_iter().find(|zero| (*zero..zero + 10).contains(&code))?;
    char::from_digit(code - zero, 10)
}

/// `true` for pictures. Signs of the text itself, such as `©`, `™` and arrows, are none.
pub(in crate::search) fn is_emoji(character: char) -> bool {
    character >= '\u{231a}' && character.is_emoji_char() && !is_modifier(character)
}

fn is_modifier(character: char) -> bool {
    matches!(character, '\u{1f3fb}'..='\u{1f3ff}')
}

fn is_flag_letter(character: char) -> bool {
    matches!(character, '\u{1f1e6}'..='\u{1f1ff}')
}

/// Returns the end of the picture that starts here: several may be joined to one.
pub(super) fn emoji_end(text: &str, start: usize) -> usize {
    let mut characters = text[start..].chars().peekable();
    let Some(first) = characters.next() else { return start };
    let mut end = start + first.len_utf8();
    if is_flag_letter(first) {
        return end + characters.next_if(|next| is_flag_letter(*next)).map_or(0, char::len_utf8);
    }
    while let Some(next) = characters.next() {
        let is_tag = matches!(next, '\u{e0020}'..='\u{e007f}');
        if next == VARIATION_SELECTOR_16 || is_modifier(next) || is_tag {
            end += next.len_utf8();
        } else if next == ZWJ
            && let Some(joined) = characters.next_if(|joined| is_emoji(*joined) || matches!(joined, '\u{2190}'..='\u{2bff}'))
        {
            end += next.len_utf8() + joined.len_utf8();
        } else {
            break;
        }
    }
    end
}

/// Folds a picture: its color and the color of a skin do not matter.
pub(super) fn fold_emoji(emoji: &str) -> String {
    emoji.chars().filter(|character| *character != VARIATION_SELECTOR_16 && !is_modifier(*character)).collect()
}
