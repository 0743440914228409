/*!
The language of a passage in Latin letters, by its smallest words and by its letters; and the words that say nothing.

Three words are enough for a passage, which a model for languages could not tell at all. English, code and lists have no language
here, so that nothing is added to their words.
*/

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::fold::fold_word;

/// Minimum and maximum number of bytes of a passage, which has one language.
const MIN_PASSAGE_BYTES: usize = 300;
const MAX_PASSAGE_BYTES: usize = 2_000;
/// Maximum number of words of a passage that are read for its language.
const MAX_READ_WORDS: usize = 64;
/// Share of a passage's words that are a language's smallest ones, at least: one in so many.
const MIN_SHARE_DIVISOR: u32 = 10;
/// Number of words of a short passage: one word is enough there.
const SHORT_PASSAGE_WORDS: u32 = 6;
/// Maximum number of letters beyond ASCII that tell the language of a passage.
const MAX_SEEN_LETTERS: usize = 8;
/// Maximum bytes of a word that is looked up: a number of 64 bits.
const MAX_KEY_BYTES: usize = 8;
/// Minimum letters of a word that may be of another language where nothing else says so.
const MIN_FOREIGN_LETTERS: usize = 5;

/// A language in Latin letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    English,
    German,
    Dutch,
    Swedish,
    Danish,
    Norwegian,
    French,
    Spanish,
    Portuguese,
    Italian,
    Romanian,
    Hungarian,
    Finnish,
    Turkish,
    Polish,
    Czech,
    Croatian,
    Indonesian,
    Baltic,
    Vietnamese,
}

use Language::{
    Baltic, Croatian, Czech, Danish, Dutch, English, Finnish, French, German, Hungarian, Indonesian, Italian, Norwegian, Polish,
    Portuguese, Romanian, Spanish, Swedish, Turkish, Vietnamese,
};

const LANGUAGES: usize = 20;

/// The smallest words of each language. Those of English are so many since English is to be told from all others.
const SMALL_WORDS: [(Language, &str); LANGUAGES] = [
    (
        English,
        "the of and to is with for that this it from are be not you we on at as by an if why how what does fix add when should can will \
         have has but or in a i do use was were which would could there their its all any into after before than then so no only run let \
         my your our they he she where who did been",
    ),
    (
        German,
        "der die das und ist nicht ein eine einen einem einer eines den dem des mit von für auf im in zu zum zur bei beim nach wird \
         werden wurde wurden warum wieso weshalb wie was wer wo wann welche welcher welches dass daß wenn oder aber auch noch schon nur \
         sich ich wir ihr sie es er kann können muss müssen soll sollte habe haben hat hatte sind war waren am an als aus bis durch gegen \
         ohne um über unter vor zwischen mein unser dieser diese dieses bitte funktioniert gibt geht man hier jetzt mehr sehr",
    ),
    (
        Dutch,
        "de het een en van is niet met voor op in te bij naar wordt worden werd waarom hoe wat wie waar wanneer welke dat als of maar \
         ook nog al wel zich ik wij jij je zij kan kunnen moet moeten heeft hebben zijn was waren aan om uit door tegen zonder over deze \
         dit geen er onze mijn graag werkt",
    ),
    (
        Swedish,
        "och att det är en ett inte med för på som av till från den de varför hur vad vem när vilken vilka om eller men också så \
         jag vi du ni han hon kan ska skall måste har hade blir blev efter vid mot utan under över denna detta mitt vår fungerar när",
    ),
    (
        Danish,
        "og at det er en et ikke med for på som af til fra den de hvorfor hvordan hvad hvem hvor hvornår hvilken om eller men også så \
         jeg vi du han hun kan skal må har havde bliver blev efter ved uden under over denne dette min vores virker når i",
    ),
    (
        Norwegian,
        "og at det er en et ei ikke med for på som av til fra den de hvorfor hvordan hva hvem hvor når hvilken om eller men også så jeg \
         vi du han hun kan skal må har hadde blir ble etter ved mot uten under over denne dette min vår fungerer i",
    ),
    (
        French,
        "le la les un une des du de et est que qui dans pour pas sur avec ne ce cette ces il elle nous vous je se au aux en par plus \
         pourquoi comment quand où quel quelle quels quelles mais ou donc sont été être avoir fait faire peut doit après avant sans sous \
         entre leur son sa ses mon ma mes notre votre quoi lors très aussi déjà encore échoue",
    ),
    (
        Spanish,
        "el la los las un una unos unas de del y en que es no se por para con su sus al lo como más pero o si le ha han fue ser está \
         están estaba son qué cómo cuándo dónde cuál quién porque desde hasta después antes sin sobre entre este esta estos estas ese \
         esa muy también ya hay hace hacer puede debe mi nuestro falla",
    ),
    (
        Portuguese,
        "o a os as um uma uns umas de do da dos das no na nos nas e em que é não se por para com seu sua ao aos pelo pela como mais mas \
         ou foi ser está estão são qual quando onde quem porque porquê desde até depois antes sem sobre entre este esta isso isto muito \
         também já há faz fazer pode deve meu minha nosso falha",
    ),
    (
        Italian,
        "il lo la i gli le un una uno di del della dei delle dello degli e è in nel nella nei nelle che non si per con su sul sulla da \
         dal dalla dai al alla ai alle come più ma o se ha hanno sono era essere stato perché quando dove quale chi cosa dopo prima senza \
         sotto tra fra questo questa questi queste molto anche già fare può deve mio nostro",
    ),
    (
        Romanian,
        "și si în in la de cu nu este sunt un o pe că ca din pentru care ce cum de când unde mai dar sau după fără prin între al ale ai \
         a fost fi are au se să lui ei acest această acesta aceste foarte trebuie poate bază eu noi meu",
    ),
    (
        Hungarian,
        "a az és nem hogy egy van volt ez azt ezt miért hogyan mi ki hol mikor melyik után előtt vagy de is csak már még ha mert mint \
         meg lehet kell lesz nélkül alatt között én mi ők ennek annak nagyon kérem",
    ),
    (
        Finnish,
        "ja on ei se että kun miksi miten mikä mitä kuka missä milloin mutta tai myös jos niin kuin ovat oli olla voi pitää jälkeen \
         ennen ilman kanssa tämä tämän nämä minä me he vain vielä jo hyvin ole",
    ),
    (
        Turkish,
        "ve bir bu için ile neden niçin niye nasıl ne nerede kim hangi sonra önce değil mı mi mu mü yok gibi kadar daha çok ama veya \
         şu o ben biz her en olarak olan oldu olduğu ediyor etmek göre lütfen",
    ),
    (
        Polish,
        "i w z na nie się do jest że to jak po od za przez dlaczego czemu kiedy gdzie co kto który która które czy ale oraz lub przy przed \
         są był była było być ma może już tylko tak jego ich ten ta te tego tej bez nad pod po dla bardzo jeszcze we ze o",
    ),
    (
        Czech,
        "a v na se je že to s z do o k i jak proč kdy kde co kdo který která které po při pro před ale nebo od za ve ke jsou byl byla \
         bylo být má může už jen tak jeho jejich ten ta tento tato bez nad pod není velmi ještě prečo keď alebo nie sú bol bola bolo sa \
         čo aby pri",
    ),
    (
        Croatian,
        "i u na se je da to s sa iz za o kako zašto zasto kada gdje gde što sto šta tko ko koji koja koje nakon posle pri pred ali ili od \
         ne su bio bila bilo biti ima može već samo tako njegov ovaj ova ovo bez nad pod nije vrlo još zakaj kaj ki ali pa ker ter",
    ),
    (
        Indonesian,
        "yang dan di ke dari untuk dengan tidak ini itu mengapa kenapa bagaimana apa siapa kapan dimana mana setelah sebelum adalah pada \
         oleh karena saya kami kita anda akan sudah belum bisa dapat harus juga atau jika agar saat sangat lagi tanpa dalam antara",
    ),
    (
        Baltic,
        "ir yra ne kad su iš į ar kodėl kaip kada kur kas po prie bet arba nuo už per be tai jis ji buvo būti gali turi kuris kuri šis un \
         ka no uz ar par pēc kāpēc kā kad kur vai nav bija tiek šis šī ja ning ei et miks kuidas kui kus mis pärast või aga see oma",
    ),
    (
        Vietnamese,
        "là và của không được có cho trong với các những một này khi sau trước bị đã đang sẽ tại sao thế nào như từ về ở để thì mà hay \
         hoặc nếu vì rất cũng tôi bạn chúng",
    ),
];

/// Letters that only some languages have.
const LETTERS: [(&str, &[Language]); 17] = [
    ("ß", &[German]),
    ("äö", &[German, Swedish, Finnish]),
    ("ü", &[German, Turkish, Hungarian]),
    ("å", &[Swedish, Danish, Norwegian]),
    ("æø", &[Danish, Norwegian]),
    ("éèêàçùœ", &[French]),
    ("éàèìòù", &[Italian]),
    ("ñáéíóú¿¡", &[Spanish]),
    ("ãõçáéíóúâê", &[Portuguese]),
    ("ăâîșțşţ", &[Romanian]),
    ("őűáéíóúöü", &[Hungarian]),
    ("ğışçöü", &[Turkish]),
    ("ąęłńśźżćó", &[Polish]),
    ("ěščřžýáíéúůďťňľĺŕô", &[Czech]),
    ("čćžšđ", &[Croatian]),
    ("ėįųūšžčāēīļņķģõ", &[Baltic]),
    ("đơưăâêô", &[Vietnamese]),
];

/// Small words that are English words or names in code as well. They say nothing where the query is evidently of their language.
const AMBIGUOUS: &str = "a ai al ale an anda ante apa ar are as at au az bit bin by car ce che com come comment con da dan dat data de dem \
    den der des di do dos du e ei el en er es est et eu fait fall far fi for fra from fri gibt go ha han has hat hay he her hier hon i il in \
    is it ja je jo ji jos k ka kaj kan kan ke ki ko kur la lag las les lo lui ma mais man mana mas me men met mi min mis mit mon mot my na \
    nad ne need nei no nos not nu o od of og om on op or os ou over pa para par pas pe per plus po pod pour pri pro prima real s sa saat \
    sans se see ser si sin sind so sob son sono sont sous st su sub sul sur ta tai te ten ter to tra u un uns use ut v van var ve vi via \
    vid von vs w was we wer wie will with wo y z ze zum fire form fame kind list log made note once one pan war bis also die alle this \
    mine side test under till sky ring under efter mod ved dos tal sia tu ti il els no os as das nas";

/// Words that say nothing in other scripts; those without spaces as pairs.
const OTHER_SCRIPTS: &str = "и в не на с по для это этот эта эти как что чтобы почему зачем когда где кто какой какая какие после при от до \
    из у к о а но или же ли бы быть был была было были есть нет мы я он она они вы мой наш его ее их так уже еще только очень \
    і й та що щоб чому навіщо коли де хто який яка які після при від до із у але або чи є був була було були ми я він вона вони це цей ця \
    защо как какво кога къде кой след от за със без са е се да ще зашто када где шта после \
    και το τα ο η οι του της των τον την στο στη στην στον στα με σε για από που πως πώς γιατί τι ποιος ποια πότε δεν να θα είναι ένα μια \
    μετά πριν ή αλλά αν ότι \
    في من على الى إلى عن مع لماذا كيف متى أين ما ماذا هل هو هي هذا هذه ذلك التي الذي بعد قبل أن إن لا لم لن كان كانت يكون قد تم أو ثم و \
    و در به از که این آن را با برای چرا چگونه چطور کی کجا چه است هست نیست بود شد می بعد قبل یا اما تا \
    اور کا کی کے میں سے کو نے پر ہے ہیں تھا کیوں کیسے کب کہاں کیا یہ وہ بعد \
    של את על עם זה זו הוא היא הם אני אנחנו לא כן למה מדוע איך מתי איפה מה מי אחרי לפני או אם כי גם רק יש אין היה הייתה \
    और का की के में से को ने पर है हैं था थी थे क्यों कैसे कब कहाँ क्या यह वह बाद होता होती होते हो गई गया या नहीं भी ही कि जो \
    এবং ও কেন কীভাবে কখন কোথায় কি কী এই সেই পরে আগে হয় হচ্ছে ছিল না জন্য থেকে সঙ্গে সাথে \
    ஏன் எப்படி எப்போது எங்கே என்ன இந்த அந்த பிறகு மற்றும் ஒரு இல்லை \
    რატომ როგორ როდის სად რა ვინ და არ არის შემდეგ ეს ის რომ \
    ինչու ինչպես երբ որտեղ ինչ ով և է չի հետո այս այդ որ \
    为什 什么 怎么 怎样 如何 哪里 哪个 哪些 是否 这个 那个 我们 你们 他们 可以 请问 的 了 是 在 和 吗 呢 為什 什麼 怎麼 哪裡 這個 那個 我們 嗎 \
    なぜ どう うし して です ます した いる ある ない この その どこ いつ とは ので から まで は が を に の と で も か \
    왜 어떻 떻게 어디 언제 무엇 누가 이것 그것 합니 니다 습니 있나 나요 은 는 이 가 을 를 의 에 \
    ทำไ ไม อย่ ย่า";

/// Stems of words in English texts about software, those of five letters or more: those that three or more of some thousand such texts have. A
/// word that is not among them may be of another language.
const ENGLISH_STEMS: &str = include_str!("english.txt");

/// A set of languages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LanguageSet(u32);

impl LanguageSet {
    /// All but English.
    const FOREIGN: Self = Self((1 << LANGUAGES) - 2);

    pub(super) const fn of(language: Language) -> Self {
        Self(1 << language as u32)
    }

    pub(super) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) const fn has(self, language: Language) -> bool {
        self.0 & Self::of(language).0 != 0
    }

    /// `true` if one of them writes compounds as one word.
    pub(super) fn has_compounds(self) -> bool {
        [German, Dutch, Swedish, Danish, Norwegian, Finnish, Hungarian].iter().any(|language| self.has(*language))
    }

    fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The passage of a text that was read last.
#[derive(Debug, Default)]
pub(super) struct Passages {
    end: usize,
    languages: LanguageSet,
}

impl Passages {
    /// Returns the languages of the passage at a place of the text. Places come in order.
    pub fn language(&mut self, text: &str, at: usize) -> LanguageSet {
        if at >= self.end {
            self.end = passage_end(text, at);
            let evidence = Evidence::of(&text[at..self.end]);
            // A list between two paragraphs is of their language.
            if evidence.words > SHORT_PASSAGE_WORDS || evidence.most > 0 || evidence.count(English) > 0 {
                self.languages = evidence.of_text();
            }
        }
        self.languages
    }
}

fn passage_end(text: &str, start: usize) -> usize {
    let bytes = text.as_bytes();
    if bytes.len() - start <= MIN_PASSAGE_BYTES {
        return bytes.len();
    }
    let last = bytes.len().min(start + MAX_PASSAGE_BYTES);
    let is_space = |at: &usize| bytes[*at].is_ascii_whitespace();
    let line = bytes[start + MIN_PASSAGE_BYTES..last].iter().position(|byte| *byte == b'\n');
    let end = line.map(|line| start + MIN_PASSAGE_BYTES + line);
    // Anything without spaces is one word, which is cut as a whole; where it is cut, its language is that of its start.
    let end = end.or_else(|| (start + MIN_PASSAGE_BYTES..last).rev().find(is_space)).unwrap_or(last);
    (end..=bytes.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(bytes.len())
}

/// Numbers of the small words of each language, and of its letters.
#[derive(Debug, Default)]
struct Evidence {
    counts: [u8; LANGUAGES],
    /// The largest number of a language other than English.
    most: u8,
    words: u32,
    has_letters: bool,
}

impl Evidence {
    fn of(passage: &str) -> Self {
        let mut found = Self::default();
        let mut letters = SeenLetters::default();
        let bytes = passage.as_bytes();
        let mut at = 0;
        while at < bytes.len() && found.words < MAX_READ_WORDS as u32 {
            let (mut key, start) = (0_u64, at);
            let mut has_letters = false;
            while let Some(byte) = bytes.get(at).filter(|byte| byte.is_ascii_alphabetic() || is_letter_byte(**byte)) {
                has_letters |= !byte.is_ascii();
                // Longer words have no key, as the first bytes go out at the other end: the length tells.
                key = key << 8 | u64::from(if byte.is_ascii_uppercase() { byte | 0x20 } else { *byte });
                at += 1;
            }
            if at == start {
                at += 1;
                continue;
            }
            found.words += 1;
            if has_letters && passage.is_char_boundary(start) && passage.is_char_boundary(at) {
                letters.read(&passage[start..at], &mut |languages| found.add(languages));
            }
            if at - start <= MAX_KEY_BYTES {
                found.add(TABLE.get(key));
            }
        }
        found.has_letters = !letters.0.is_empty();
        found.most = found.counts[1..].iter().copied().max().unwrap_or(0);
        found
    }

    fn add(&mut self, languages: u32) {
        let mut left = languages & ((1 << LANGUAGES) - 1);
        while left != 0 {
            let count = &mut self.counts[left.trailing_zeros() as usize];
            *count = count.saturating_add(1);
            left &= left - 1;
        }
    }

    fn count(&self, language: Language) -> u8 {
        self.counts[language as usize]
    }

    /// The languages with the largest number.
    fn best(&self) -> LanguageSet {
        let best = self.counts.iter().enumerate().skip(1).filter(|(_, count)| **count == self.most);
        LanguageSet(best.fold(0, |set, (language, _)| set | 1 << language))
    }

    /// The languages of a text; at most three that are too much alike.
    fn of_text(&self) -> LanguageSet {
        let most = u32::from(self.most);
        let is_enough = most >= 2 && most * MIN_SHARE_DIVISOR >= self.words || most == 1 && self.words <= SHORT_PASSAGE_WORDS;
        if !is_enough || self.most <= self.count(English) {
            return LanguageSet::default();
        }
        let best = self.best();
        if best.0.count_ones() <= 3 { best } else { LanguageSet::default() }
    }
}

/// `true` for bytes of letters beyond ASCII; not for those of signs such as dashes and quotation marks.
fn is_letter_byte(byte: u8) -> bool {
    byte >= 0x80 && byte != 0xe2
}

/// The letters beyond ASCII that were read, each once.
#[derive(Debug, Default)]
struct SeenLetters(Vec<char>);

impl SeenLetters {
    /// Reads a word, and passes the languages of each new letter.
    fn read(&mut self, word: &str, sink: &mut dyn FnMut(u32)) {
        for character in word.chars().filter(|character| ('\u{a1}'..='\u{1eff}').contains(character)) {
            let lower = character.to_lowercase().next().unwrap_or(character);
            if self.0.len() < MAX_SEEN_LETTERS && !self.0.contains(&lower) {
                self.0.push(lower);
                sink(languages_of(lower));
            }
        }
    }
}

fn languages_of(letter: char) -> u32 {
    let vietnamese = if matches!(letter, '\u{1ea0}'..='\u{1ef9}') { LanguageSet::of(Vietnamese).0 } else { 0 };
    let known = LETTERS.iter().filter(|(letters, _)| letters.contains(letter)).flat_map(|(_, languages)| *languages);
    known.fold(vietnamese, |set, language| set | LanguageSet::of(*language).0)
}

/// The small words of all languages by their bytes, open to the next free place.
struct Table(Vec<(u64, u32)>);

const TABLE_PLACES: usize = 4_096;

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut table = Table(vec![(0, 0); TABLE_PLACES]);
    for (language, words) in SMALL_WORDS {
        for word in words.split_whitespace().filter(|word| word.len() <= MAX_KEY_BYTES) {
            let key = word.bytes().fold(0, |key, byte| key << 8 | u64::from(byte));
            let place = table.place(key);
            table.0[place].0 = key;
            table.0[place].1 |= LanguageSet::of(language).0;
        }
    }
    table
});

impl Table {
    fn place(&self, key: u64) -> usize {
        let mut place = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize % TABLE_PLACES;
        while self.0[place].0 != 0 && self.0[place].0 != key {
            place = (place + 1) % TABLE_PLACES;
        }
        place
    }

    fn get(&self, key: u64) -> u32 {
        self.0[self.place(key)].1
    }
}

/// All small words but those of English, folded, with their languages; and if one says nothing wherever it stands.
static STOP_WORDS: LazyLock<HashMap<String, (LanguageSet, bool)>> = LazyLock::new(|| {
    let mut words: HashMap<String, (LanguageSet, bool)> = HashMap::new();
    let english: Vec<&str> = SMALL_WORDS[0].1.split_whitespace().chain(AMBIGUOUS.split_whitespace()).collect();
    for (language, of_language) in &SMALL_WORDS[1..] {
        for word in of_language.split_whitespace() {
            let folded = fold_word(word);
            // Without its marks, a word may be another one.
            let is_firm =
                word == folded && !english.contains(&word) || word.len() > MAX_KEY_BYTES / 2 && !english.contains(&&*folded);
            let known = words.entry(folded).or_insert((LanguageSet::default(), is_firm));
            known.0 = known.0.with(LanguageSet::of(*language));
        }
    }
    let others = OTHER_SCRIPTS.split_whitespace();
    words.extend(others.map(|word| (fold_word(word), (LanguageSet::default(), true))));
    words
});

static ENGLISH: LazyLock<HashSet<&str>> = LazyLock::new(|| ENGLISH_STEMS.split_whitespace().collect());

/// `true` if a word, folded, says nothing about the subject in a language other than English, and nothing else in English.
pub(in crate::search) fn is_foreign_stop_word(folded: &str) -> bool {
    STOP_WORDS.get(folded).is_some_and(|(_, is_firm)| *is_firm)
}

/// The language of a query, as far as a few words tell it.
#[derive(Debug, Default)]
pub struct QueryLanguage {
    /// The languages that it is in; none if that is not known.
    known: LanguageSet,
    /// Languages with as many small words as any.
    likely: LanguageSet,
    is_english: bool,
}

impl QueryLanguage {
    /// Reads a query.
    pub fn of(query: &str) -> Self {
        let evidence = Evidence::of(query);
        let most = evidence.most;
        let best = evidence.best();
        let is_foreign = most > evidence.count(English);
        let is_known = is_foreign && most >= 2;
        Self {
            known: if is_known && best.0.count_ones() <= 3 { best } else { LanguageSet::default() },
            likely: if is_known || is_foreign && evidence.has_letters { best } else { LanguageSet::default() },
            is_english: evidence.count(English) > 0 && !is_foreign,
        }
    }

    /// Returns the languages that a word of the query may be of, other than English.
    pub(super) fn of_word(&self, typed: &str, folded: &str, english_stem: &str) -> LanguageSet {
        if !self.known.is_empty() {
            return self.known;
        }
        let is_odd =
            || !typed.is_ascii() || !self.is_english && folded.len() >= MIN_FOREIGN_LETTERS && !ENGLISH.contains(english_stem);
        if !self.likely.is_empty() || is_odd() { LanguageSet::FOREIGN } else { LanguageSet::default() }
    }

    /// `true` if a folded word of the query says nothing about its subject.
    pub(in crate::search) fn is_stop_word(&self, folded: &str) -> bool {
        let Some((languages, is_firm)) = STOP_WORDS.get(folded) else { return false };
        *is_firm || languages.0 & self.likely.0 != 0
    }
}
