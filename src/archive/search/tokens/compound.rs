/*!
Parts of compounds, in languages that write them as one word: `Datenbankverbindung` has `Datenbank` and `Verbindung`.

A dictionary would be larger than the rest of the program. A list of words that compounds about software are made of finds most of
them; what is left of such a word is taken for a part as well. Of other long words the ends that begin as a syllable are taken.
*/

use std::collections::HashSet;
use std::sync::LazyLock;

use super::language::LanguageSet;

/// Minimum number of letters of a compound, of a part, and of an end that is not listed.
const MIN_COMPOUND_LETTERS: usize = 9;
const MIN_PART_LETTERS: usize = 4;
const MIN_GUESSED_COMPOUND_LETTERS: usize = 13;
const MIN_GUESSED_LETTERS: usize = 6;
/// Maximum number of parts, and of guessed ends.
const MAX_PARTS: usize = 6;
const MAX_GUESSED: usize = 3;

/// Words that compounds are made of, folded. None of them is the end of an English word.
const GERMAN: &str = "abbruch abfolge abfrage abgleich abhangigkeit ablage ablauf abschnitt absturz abwicklung adresse aktion analyse \
    anbieter anbindung andrang anderung anfrage anhang anlage anmeldung anpassung anruf ansicht anweisung anwendung anzahl anzeige \
    arbeit aufbau aufgabe aufruf auftrag ausfall ausfuhrung ausgabe ausnahme auswahl auswertung ausdruck baum bearbeitung bedingung \
    befehl behandlung bedarf benachrichtigung benutzer bereich bereinigung berechnung berechtigung bericht beschreibung bestellung \
    bestatigung betrieb bewertung bezeichner bibliothek bild bildschirm buchung code datei daten datenbank datensatz dauer dienst \
    dokument druck durchlauf ebene eigenschaft eingabe einrichtung einstellung eintrag einheit element empfanger entwicklung ereignis \
    ergebnis erkennung erlaubnis ersetzung erstellung erweiterung erzeugung fahigkeit faktor fehler feld fenster filter folge format \
    formular frage freigabe funktion gerat geschwindigkeit gesellschaft grosse grenze gruppe gultigkeit haltung herkunft hilfe hinweis \
    inhalt kanal karte kennung kennwort kette klasse knoten komponente konfiguration konflikt konto kontrolle kopie kosten kunde lager \
    last laufzeit laufwerk leistung leitung lieferung liste logik losung loschung maschine maske meldung menge merkmal methode modell modul \
    muster nachricht name netz netzwerk nummer nutzer nutzung oberflache objekt operation ordner paket parameter partner passwort pfad \
    pflege phase planung platz position preis problem programm projekt protokoll prozess prufung puffer quelle rahmen rechner rechnung \
    regel registrierung reihe reihenfolge richtlinie rolle ruckgabe ruckmeldung sammlung satz schalter schaltflache schicht schlange \
    schleife schlussel schnittstelle schreiben schritt schutz seite sicherheit sicherung sicht sitzung skript software speicher sperre \
    sprache spalte stand standard stapel steuerung stelle strasse struktur stufe suche symbol system tabelle taste teil text token treiber \
    typ uberprufung ubersetzung ubersicht uberwachung ubertragung umgebung umleitung unterstutzung ursache variable verarbeitung \
    verbindung verfahren vergleich verhalten verlauf verletzung verschlusselung version versuch verteilung vertrag verwaltung \
    verzeichnis verzogerung vorgang vorlage vorschau wartung warteschlange warnung weg weiterleitung werkzeug wert wiederherstellung \
    wechsel zahl zahlung zeichen zeichenkette zeile zeit zeitpunkt zeitraum zertifikat ziel zugang zugriff zusammenfassung zustand \
    zuordnung zustellung zuweisung zweig zwischenspeicher rate ebene absatz kommentar";

/// The same for Dutch, the languages of Scandinavia, Finnish and Hungarian.
const OTHERS: &str = "verbinding gegevens bestand bestanden gebruiker gebruikers fout foutmelding melding instelling instellingen beheer \
    bericht aanvraag toegang machtiging machtigingen wachtwoord sleutel tabel waarde functie omgeving versie koppeling koppelvlak server \
    wachtrij verwerking betaling beveiliging beperking database aanmelding controle uitvoer invoer \
    anslutning anslutningar kund register registret databas fel felmeddelande meddelande installning installningar hantering behorighet behorigheter losenord \
    nyckel tabell varde granssnitt anvandare fil filer mapp sida sidor kod koppling forfragan kontroll bearbetning betalning sakerhet \
    forbindelse fejl fejlmeddelelse meddelelse indstilling indstillinger rettighed rettigheder adgangskode nogle vaerdi graenseflade \
    bruger brugere behandling betaling sikkerhed tilkobling feil feilmelding innstilling innstillinger rettighet rettigheter passord \
    nokkel verdi grensesnitt bruker brukere sikkerhet foresporsel \
    yhteys yhteyden tietokanta tietokannan virhe virheen viesti asetus asetukset kayttaja kayttajan oikeus oikeudet salasana avain taulu \
    arvo rajapinta palvelin palvelimen tiedosto tiedoston kansio sivu koodi pyynto kasittely maksu turvallisuus hallinta \
    kapcsolat adatbazis hiba uzenet beallitas beallitasok kezeles jogosultsag jogosultsagok jelszo kulcs tabla ertek felulet felhasznalo \
    kiszolgalo fajl mappa oldal keres feldolgozas fizetes biztonsag";

static PARTS: LazyLock<HashSet<&str>> = LazyLock::new(|| GERMAN.split_whitespace().chain(OTHERS.split_whitespace()).collect());

/// Endings of a part at the end of a compound, and letters between two parts.
const ENDINGS: [&str; 10] = ["", "n", "en", "s", "e", "es", "er", "ern", "nen", "t"];
const LINKS: [&str; 5] = ["", "s", "n", "en", "es"];

/// Returns the parts of a folded word, if it is long and may be of a language that has compounds.
pub(super) fn parts(folded: &str, languages: LanguageSet, is_query: bool) -> Vec<String> {
    if folded.len() < MIN_COMPOUND_LETTERS || !languages.has_compounds() || !folded.bytes().all(|byte| byte.is_ascii_lowercase())
    {
        return Vec::new();
    }
    // What is listed is a part itself.
    if is_listed(folded) {
        return Vec::new();
    }
    let mut parts = Vec::new();
    split(folded, &mut parts);
    parts.truncate(MAX_PARTS);
    // A guess costs a text some words. In a query it would find what was not meant.
    if parts.is_empty() && !is_query && folded.len() >= MIN_GUESSED_COMPOUND_LETTERS {
        parts.extend(ends(folded).take(MAX_GUESSED).map(str::to_owned));
    }
    parts
}

fn split(word: &str, parts: &mut Vec<String>) {
    let last = word.len().saturating_sub(3);
    // The longest end comes first: "datenbank" is not "bank".
    if let Some(at) = (MIN_PART_LETTERS - 1..last).find(|at| is_listed(&word[*at..])) {
        parts.push(word[at..].to_owned());
        let front = unlinked(&word[..at]);
        if front.len() >= MIN_PART_LETTERS {
            parts.push(front.to_owned());
            if !PARTS.contains(front) && parts.len() < MAX_PARTS {
                split(front, parts);
            }
        }
        return;
    }
    let front = (MIN_PART_LETTERS..word.len().saturating_sub(MIN_PART_LETTERS)).rev().find_map(|at| {
        let front = unlinked(&word[..at]);
        (front.len() > MIN_PART_LETTERS && PARTS.contains(front)).then_some((at, front))
    });
    if let Some((at, front)) = front {
        parts.extend([front.to_owned(), word[at..].to_owned()]);
    }
}

/// `true` for a listed word, with the endings of its forms.
fn is_listed(end: &str) -> bool {
    ENDINGS.iter().filter_map(|ending| end.strip_suffix(ending)).any(|word| PARTS.contains(word))
}

/// Removes the letters that link a part to the next one.
fn unlinked(front: &str) -> &str {
    let bare = LINKS.iter().filter_map(|link| front.strip_suffix(link)).find(|word| PARTS.contains(word));
    let is_noun = |word: &&str| ["ung", "heit", "keit", "schaft", "ion", "tat"].iter().any(|ending| word.ends_with(ending));
    bare.or_else(|| front.strip_suffix('s').filter(is_noun)).unwrap_or(front)
}

/// Returns the ends of a word that begin as a syllable, the longest first.
fn ends(word: &str) -> impl Iterator<Item = &str> {
    let bytes = word.as_bytes();
    let is_vowel = |at: usize| matches!(bytes[at], b'a' | b'e' | b'i' | b'o' | b'u' | b'y');
    (MIN_PART_LETTERS..word.len().saturating_sub(MIN_GUESSED_LETTERS - 1))
        .rev()
        .filter(move |at| !is_vowel(*at) && is_vowel(at + 1) && !(bytes[at - 1] == b'c' && bytes[*at] == b'h'))
        .map(move |at| &word[at..])
}
