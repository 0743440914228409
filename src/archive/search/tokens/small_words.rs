/*!
Languages in Latin letters, and their smallest words, which tell a language and say nothing about a subject.

They are as people write them. Where a language is read, marks matter: without them, words of several languages are one. What a query
leaves out is `stop_words.txt`, which a test makes of these lists.
*/

use Language::{
    Baltic, Croatian, Czech, Danish, Dutch, English, Finnish, French, German, Hungarian, Indonesian, Italian, Norwegian, Polish,
    Portuguese, Romanian, Spanish, Swedish, Turkish, Vietnamese,
};

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

/// Number of languages.
pub(super) const LANGUAGES: usize = 20;

/// The smallest words of each language. Those of English are so many since English is to be told from all others.
pub(super) const SMALL_WORDS: [(Language, &str); LANGUAGES] = [
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
         ohne um über unter vor zwischen mein unser dieser diese dieses bitte gibt geht man hier jetzt mehr sehr",
    ),
    (
        Dutch,
        "de het een en van is niet met voor op in te bij naar wordt worden werd waarom hoe wat wie waar wanneer welke dat als of maar \
         ook nog al wel zich ik wij jij je zij kan kunnen moet moeten heeft hebben zijn was waren aan om uit door tegen zonder over deze \
         dit geen er onze mijn graag",
    ),
    (
        Swedish,
        "och att det är en ett inte med för på som av till från den de varför hur vad vem när vilken vilka om eller men också så \
         jag vi du ni han hon kan ska skall måste har hade blir blev efter vid mot utan under över denna detta mitt vår när",
    ),
    (
        Danish,
        "og at det er en et ikke med for på som af til fra den de hvorfor hvordan hvad hvem hvor hvornår hvilken om eller men også så \
         jeg vi du han hun kan skal må har havde bliver blev efter ved uden under over denne dette min vores når i",
    ),
    (
        Norwegian,
        "og at det er en et ei ikke med for på som av til fra den de hvorfor hvordan hva hvem hvor når hvilken om eller men også så jeg \
         vi du han hun kan skal må har hadde blir ble etter ved mot uten under over denne dette min vår i",
    ),
    (
        French,
        "le la les un une des du de et est que qui dans pour pas sur avec ne ce cette ces il elle nous vous je se au aux en par plus \
         pourquoi comment quand où quel quelle quels quelles mais ou donc sont été être avoir fait faire peut doit après avant sans sous \
         entre leur son sa ses mon ma mes notre votre quoi lors très aussi déjà encore",
    ),
    (
        Spanish,
        "el la los las un una unos unas de del y en que es no se por para con su sus al lo como más pero o si le ha han fue ser está \
         están estaba son qué cómo cuándo dónde cuál quién porque desde hasta después antes sin sobre entre este esta estos estas ese \
         esa muy también ya hay hace hacer puede debe mi nuestro",
    ),
    (
        Portuguese,
        "o a os as um uma uns umas de do da dos das no na nos nas e em que é não se por para com seu sua ao aos pelo pela como mais mas \
         ou foi ser está estão são qual quando onde quem porque porquê desde até depois antes sem sobre entre este esta isso isto muito \
         também já há faz fazer pode deve meu minha nosso",
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
         a fost fi are au se să lui ei acest această acesta aceste foarte trebuie poate eu noi meu",
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
pub(super) const LETTERS: [(&str, &[Language]); 17] = [
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
#[cfg(test)]
pub(super) const AMBIGUOUS: &str = "a ai al ale an anda ante apa ar are as at au az bit bin by car ce che com come comment con da dan dat data de dem \
    den der des di do dos du e ei el en er es est et eu fait fall far fi for fra from fri gibt go ha han has hat hay he her hier hon i il in \
    is it ja je jo ji jos k ka kaj kan kan ke ki ko kur la lag las les lo lui ma mais man mana mas me men met mi min mis mit mon mot my na \
    nad ne need nei no nos not nu o od of og om on op or os ou over pa para par pas pe per plus po pod pour pri pro prima real s sa saat \
    sans se see ser si sin sind so sob son sono sont sous st su sub sul sur ta tai te ten ter to tra u un uns use ut v van var ve vi via \
    vid von vs w was we wer wie will with wo y z ze zum fire form fame kind list log made note once one pan war bis also die alle this \
    mine side test under till sky ring under efter mod ved dos tal sia tu ti il els no os as das nas";

/// Words that say nothing in other scripts; those without spaces as pairs.
#[cfg(test)]
pub(super) const OTHER_SCRIPTS: &str = "и в не на с по для это этот эта эти как что чтобы почему зачем когда где кто какой какая какие после при от до \
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
