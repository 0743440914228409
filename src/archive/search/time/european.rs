/*!
Times in German, French and Spanish: "letzte Woche", "il y a trois jours", "el 3 de mayo".

The tables have words without accents, and so has the query when they are compared. A month or a day of the week is one only in a
phrase that makes it one, since "mars" and "mai" are other words elsewhere.
*/

use std::collections::HashSet;
use std::ops::Range;
use std::sync::OnceLock;

use jiff::civil::Date;

use super::meaning::{MonthPart, TimeMeaning, Unit, Values};
use super::parser::Days;
use super::query_words::quoted;

use TimeMeaning::{Ago, Date as OnDate, DayBefore, Last, Part, UnitBefore, Weekday};

/// Phrases and what they mean: `#` is a number, `%d` a day of the month, `%m` a month, `%y` a year, `%w` a day of the week.
const PHRASES: &[(&str, TimeMeaning)] = &[
    ("heute", DayBefore(0)),
    ("gestern", DayBefore(1)),
    ("vorgestern", DayBefore(2)),
    ("letzte|letzter|letzten|vorige|voriger|vorigen|vergangene|vergangener|vergangenen woche", UnitBefore(Unit::Week, 1)),
    ("letzten|letztem|vorigen|vorigem|vergangenen|vergangenem monat", UnitBefore(Unit::Month, 1)),
    ("letztes|letzten|letztem|voriges|vorigen|vergangenes|vergangenen jahr", UnitBefore(Unit::Year, 1)),
    ("diese|dieser woche", UnitBefore(Unit::Week, 0)),
    ("diesen|diesem monat", UnitBefore(Unit::Month, 0)),
    ("dieses|diesem jahr", UnitBefore(Unit::Year, 0)),
    ("vor # tag|tagen", Ago(Unit::Day)),
    ("vor # woche|wochen", Ago(Unit::Week)),
    ("vor # monat|monaten", Ago(Unit::Month)),
    ("vor # jahr|jahren", Ago(Unit::Year)),
    ("in den letzten # tagen", Last(Unit::Day)),
    ("in den letzten # wochen", Last(Unit::Week)),
    ("in den letzten # monaten", Last(Unit::Month)),
    ("am|letzten|vorigen|vergangenen|diesen %w", Weekday),
    ("am|vom|den %d %m", OnDate),
    ("am|vom|den %d %m %y", OnDate),
    ("im|letzten|vorigen|vergangenen %m", OnDate),
    ("im %m %y", OnDate),
    ("anfang %m", Part(MonthPart::Begin)),
    ("mitte %m", Part(MonthPart::Middle)),
    ("ende %m", Part(MonthPart::End)),
    ("aujourd hui", DayBefore(0)),
    ("hier", DayBefore(1)),
    ("hier soir|matin|midi", DayBefore(1)),
    ("avant hier", DayBefore(2)),
    ("la semaine derniere|passee|precedente", UnitBefore(Unit::Week, 1)),
    ("le mois dernier|passe|precedent", UnitBefore(Unit::Month, 1)),
    ("l annee derniere|passee|precedente", UnitBefore(Unit::Year, 1)),
    ("l an dernier|passe", UnitBefore(Unit::Year, 1)),
    ("cette semaine", UnitBefore(Unit::Week, 0)),
    ("ce mois", UnitBefore(Unit::Month, 0)),
    ("ce mois ci", UnitBefore(Unit::Month, 0)),
    ("cette annee", UnitBefore(Unit::Year, 0)),
    ("il y a # jour|jours", Ago(Unit::Day)),
    ("il y a # semaine|semaines", Ago(Unit::Week)),
    ("il y a # mois", Ago(Unit::Month)),
    ("il y a # an|ans|annee|annees", Ago(Unit::Year)),
    ("les|ces # derniers jours", Last(Unit::Day)),
    ("les|ces # dernieres semaines", Last(Unit::Week)),
    ("les|ces # derniers mois", Last(Unit::Month)),
    ("%w dernier|passe", Weekday),
    ("le|du|au %d %m", OnDate),
    ("le|du|au %d %m %y", OnDate),
    ("%m dernier|passe", OnDate),
    ("en %m", OnDate),
    ("en %m %y", OnDate),
    ("au mois de %m", OnDate),
    ("debut %m", Part(MonthPart::Begin)),
    ("mi %m", Part(MonthPart::Middle)),
    ("fin %m", Part(MonthPart::End)),
    ("hoy", DayBefore(0)),
    ("ayer", DayBefore(1)),
    ("anteayer", DayBefore(2)),
    ("antes de ayer", DayBefore(2)),
    ("la semana pasada|anterior", UnitBefore(Unit::Week, 1)),
    ("el mes pasado|anterior", UnitBefore(Unit::Month, 1)),
    ("el ano pasado|anterior", UnitBefore(Unit::Year, 1)),
    ("esta semana", UnitBefore(Unit::Week, 0)),
    ("este mes", UnitBefore(Unit::Month, 0)),
    ("hace # dia|dias", Ago(Unit::Day)),
    ("hace # semana|semanas", Ago(Unit::Week)),
    ("hace # mes|meses", Ago(Unit::Month)),
    ("hace # ano|anos", Ago(Unit::Year)),
    ("el %w", Weekday),
    ("el %w pasado", Weekday),
    ("%d de %m", OnDate),
    ("%d de %m de|del %y", OnDate),
    ("en %m de|del %y", OnDate),
    ("%m de|del %y", OnDate),
    ("%m pasado", OnDate),
    ("los ultimos # dias", Last(Unit::Day)),
    ("las ultimas # semanas", Last(Unit::Week)),
    ("los ultimos # meses", Last(Unit::Month)),
    ("principios de %m", Part(MonthPart::Begin)),
    ("mediados de %m", Part(MonthPart::Middle)),
    ("finales de %m", Part(MonthPart::End)),
    ("%d %m", OnDate),
    ("%d %m %y", OnDate),
    ("%m %y", OnDate),
];

/// Phrases that mean a time only where one has to be: behind "since", or alone in an option.
const LED_PHRASES: &[(&str, TimeMeaning)] = &[("%m", OnDate), ("%w", Weekday)];

/// Words before a time, with the small words that may follow them.
const SINCE: &[&str] = &["seit", "ab", "depuis", "desde"];
const UNTIL: &[&str] = &["bis", "avant", "jusqu", "antes", "hasta"];
const AFTER: &[&str] = &["nach", "apres", "despues"];
const SMALL_WORDS: &[&str] = &["dem", "der", "den", "zum", "zur", "le", "la", "au", "a", "el", "de", "del"];

/// Months and days of the week, in the order of the calendar.
const MONTHS: [[&str; 12]; 3] = [
    ["januar", "februar", "marz", "april", "mai", "juni", "juli", "august", "september", "oktober", "november", "dezember"],
    ["janvier", "fevrier", "mars", "avril", "mai", "juin", "juillet", "aout", "septembre", "octobre", "novembre", "decembre"],
    ["enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre", "octubre", "noviembre", "diciembre"],
];
const WEEKDAYS: [[&str; 7]; 3] = [
    ["montag", "dienstag", "mittwoch", "donnerstag", "freitag", "samstag", "sonntag"],
    ["lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi", "dimanche"],
    ["lunes", "martes", "miercoles", "jueves", "viernes", "sabado", "domingo"],
];
const NUMBERS: [[&str; 10]; 4] = [
    ["einem", "zwei", "drei", "vier", "funf", "sechs", "sieben", "acht", "neun", "zehn"],
    ["einer", "zwo", "dreien", "vieren", "funf", "sechs", "sieben", "acht", "neun", "zehn"],
    ["un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf", "dix"],
    ["una", "dos", "tres", "cuatro", "cinco", "seis", "siete", "ocho", "nueve", "diez"],
];

/// "Hier" is French for yesterday and German for here: words that only one of them has.
const FRENCH_WORDS: &[&str] = &[
    "le", "la", "les", "du", "est", "que", "qui", "on", "nous", "avons", "ai", "c", "d", "j", "l", "une", "un", "pour", "avec",
    "sur",
];
const GERMAN_WORDS: &[&str] =
    &["ist", "der", "die", "das", "was", "und", "ich", "wir", "nicht", "den", "dem", "ein", "eine", "es", "wird", "war", "mit"];

/// Words that an apostrophe or a hyphen joins to the next one.
const JOINED_WORDS: &[&str] = &["l", "d", "j", "c", "qu", "jusqu", "aujourd", "avant", "apres", "mi", "mois"];

/// A word without accents; empty if it is in quotes or in the middle of something else.
struct FoldedWord {
    text: String,
    range: Range<usize>,
}

/// Returns the first time that a query names in one of these languages.
pub(super) fn find(query: &str, today: Date) -> Option<(Days, Range<usize>)> {
    let words = folded(query);
    let begins = |at: &usize| is_first(&words[*at].text);
    (0..words.len()).filter(begins).find_map(|at| {
        let (days, length) = open_or_closed(&words, at, today)?;
        Some((days, words[at].range.start..words[at + length - 1].range.end))
    })
}

/// Parses a text that is a time and nothing else.
pub(super) fn parse_all(text: &str, today: Date) -> Option<Range<Date>> {
    let words = folded(text);
    let (days, length) = days(&words, 0, today, true)?;
    let is_all = length == words.len() && words.first()?.range.start == 0 && words.last()?.range.end == text.len();
    is_all.then_some(days)
}

/// `true` if a phrase may begin with a word: queries are long, and most words begin none.
fn is_first(word: &str) -> bool {
    static FIRST: OnceLock<HashSet<&str>> = OnceLock::new();
    let first = FIRST.get_or_init(|| {
        let of_phrases = PHRASES.iter().filter_map(|(phrase, _)| phrase.split(' ').next()).flat_map(|part| part.split('|'));
        let of_calendar = MONTHS.as_flattened().iter().chain(WEEKDAYS.as_flattened());
        of_phrases.chain(of_calendar.chain(SINCE).chain(UNTIL).chain(AFTER).copied()).collect()
    });
    word.starts_with(|c: char| c.is_ascii_digit()) || first.contains(word)
}

fn open_or_closed(words: &[FoldedWord], at: usize, today: Date) -> Option<(Days, usize)> {
    if let Some((days, length)) = days(words, at, today, false) {
        return Some(((Some(days.start), Some(days.end)), length));
    }
    let lead = words[at].text.as_str();
    let [is_since, is_until, is_after] = [SINCE, UNTIL, AFTER].map(|leads| leads.contains(&lead));
    if !(is_since || is_until || is_after) {
        return None;
    }
    let small = words[at + 1..].iter().take(2).take_while(|word| SMALL_WORDS.contains(&word.text.as_str())).count();
    // "La semaine dernière" begins with a small word itself.
    let (days, length) = (0..=small).find_map(|skip| {
        let (days, length) = days(words, at + 1 + skip, today, true)?;
        Some((days, length + skip + 1))
    })?;
    Some(match (is_since, is_until) {
        (true, _) => ((Some(days.start), None), length),
        (_, true) => ((None, Some(days.start)), length),
        _ => ((Some(days.end), None), length),
    })
}

/// Days of the longest phrase at a position, and the number of its words. `is_time`: it has to be a time.
fn days(words: &[FoldedWord], at: usize, today: Date, is_time: bool) -> Option<(Range<Date>, usize)> {
    let led = if is_time { LED_PHRASES } else { &[] };
    let fitting = PHRASES.iter().chain(led).filter_map(|(phrase, meaning)| {
        let (values, length) = fit(phrase, words.get(at..)?)?;
        let is_here = *phrase == "hier" && !is_time && !is_french(words, at);
        (!is_here).then_some((meaning.days(&values, today)?, length))
    });
    fitting.max_by_key(|(_, length)| *length)
}

/// Values and number of words of a phrase, if the words begin with it.
fn fit(phrase: &str, words: &[FoldedWord]) -> Option<(Values, usize)> {
    let mut values = Values::default();
    let mut length = 0;
    for part in phrase.split(' ') {
        let word = words.get(length)?.text.as_str();
        if word.is_empty() || !part.split('|').any(|form| is_form(form, word, &mut values)) {
            return None;
        }
        length += 1;
    }
    Some((values, length))
}

fn is_form(form: &str, word: &str, values: &mut Values) -> bool {
    let index = |tables: &[&[&str]]| tables.iter().find_map(|table| table.iter().position(|name| *name == word));
    match form {
        "#" => {
            let named = index(&NUMBERS.each_ref().map(|table| &table[..])).map(|at| at as i64 + 1);
            values.number = named.or_else(|| word.parse().ok()).filter(|number| (1..1000).contains(number));
            values.number.is_some()
        }
        "%d" => {
            let digits = word.strip_suffix("er").unwrap_or(word);
            values.day = digits.parse().ok().filter(|day| (1..=31).contains(day));
            values.day.is_some()
        }
        "%m" => {
            values.month = index(&MONTHS.each_ref().map(|table| &table[..])).map(|at| at as i8 + 1);
            values.month.is_some()
        }
        "%w" => {
            values.weekday = index(&WEEKDAYS.each_ref().map(|table| &table[..])).map(|at| at as i8);
            values.weekday.is_some()
        }
        "%y" => {
            values.year = word.parse().ok().filter(|year| (1990..2100).contains(year));
            values.year.is_some()
        }
        _ => form == word,
    }
}

/// `true` if the query is more French than German.
fn is_french(words: &[FoldedWord], at: usize) -> bool {
    let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.text.as_str()));
    let is_led = at.checked_sub(1).is_some_and(|at| matches!(words[at].text.as_str(), "d" | "depuis" | "avant" | "apres"));
    is_led || has(FRENCH_WORDS) && !has(GERMAN_WORDS)
}

fn folded(query: &str) -> Vec<FoldedWord> {
    let quoted = quoted(query);
    let mut words: Vec<FoldedWord> = Vec::new();
    let mut rest = 0;
    while let Some(start) = query[rest..].find(char::is_alphanumeric).map(|at| rest + at) {
        let end = query[start..].find(|c: char| !c.is_alphanumeric()).map_or(query.len(), |at| start + at);
        let mut text: String = query[start..end].chars().flat_map(char::to_lowercase).map(without_accent).collect();
        let after_joined = words.last().is_some_and(|last| {
            let is_next = query[last.range.end..start].chars().count() == 1;
            is_next && JOINED_WORDS.contains(&last.text.as_str())
        });
        let is_free = is_free_before(&query[..start], after_joined) && is_free_behind(&text, &query[end..]);
        if !is_free || quoted.iter().any(|quoted| quoted.contains(&start)) {
            text.clear();
        }
        words.push(FoldedWord { text, range: start..end });
        rest = end;
    }
    words
}

fn is_free_before(before: &str, after_joined: bool) -> bool {
    match before.chars().next_back() {
        Some('-' | '\'' | '’') => after_joined,
        character => character.is_none_or(|c| c.is_whitespace() || matches!(c, '(' | '¿' | '¡' | '–' | '—' | '…')),
    }
}

fn is_free_behind(text: &str, behind: &str) -> bool {
    let mut rest = behind.chars();
    match rest.next() {
        Some('.' | ',' | ';' | ':' | '?' | '!') => {
            rest.next().is_none_or(|c| c.is_whitespace() || matches!(c, '.' | ',' | ';' | '?' | '!' | ')'))
        }
        Some('-' | '\'' | '’') => JOINED_WORDS.contains(&text),
        character => character.is_none_or(|c| c.is_whitespace() || matches!(c, ')' | '–' | '—' | '…')),
    }
}

fn without_accent(c: char) -> char {
    match c {
        'à' | 'á' | 'â' | 'ä' => 'a',
        'è' | 'é' | 'ê' | 'ë' => 'e',
        'ì' | 'í' | 'î' | 'ï' => 'i',
        'ò' | 'ó' | 'ô' | 'ö' => 'o',
        'ù' | 'ú' | 'û' | 'ü' => 'u',
        'ñ' => 'n',
        'ç' => 'c',
        c => c,
    }
}
