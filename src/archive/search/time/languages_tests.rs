use super::tests::read;
use super::*;

#[test]
fn times_in_german() {
    for (query, expected) in [
        ("was haben wir gestern gemacht?", "2026-06-19 2026-06-20 [gestern]"),
        ("der Fehler von vorgestern", "2026-06-18 2026-06-19 [vorgestern]"),
        ("heute früh", "2026-06-20 2026-06-21 [heute]"),
        ("die Migration letzte Woche", "2026-06-08 2026-06-15 [letzte Woche]"),
        ("letzten Monat", "2026-05-01 2026-06-01 [letzten Monat]"),
        ("im letzten Jahr", "2025-01-01 2026-01-01 [letzten Jahr]"),
        ("vor 3 Tagen", "2026-06-17 2026-06-18 [vor 3 Tagen]"),
        ("vor einer Woche", "2026-06-10 2026-06-17 [vor einer Woche]"),
        ("vor fünf Tagen", "2026-06-15 2026-06-16 [vor fünf Tagen]"),
        ("in den letzten 3 Tagen", "2026-06-17 2026-06-21 [in den letzten 3 Tagen]"),
        ("am Montag", "2026-06-15 2026-06-16 [am Montag]"),
        ("letzten Dienstag", "2026-06-16 2026-06-17 [letzten Dienstag]"),
        ("im Mai", "2026-05-01 2026-06-01 [im Mai]"),
        ("im März 2025", "2025-03-01 2025-04-01 [im März 2025]"),
        ("am 3. Mai", "2026-05-03 2026-05-04 [am 3. Mai]"),
        ("der Stand vom 4. Oktober 2025", "2025-10-04 2025-10-05 [vom 4. Oktober 2025]"),
        ("Mitte März", "2026-03-10 2026-03-21 [Mitte März]"),
        ("seit Freitag", "2026-06-19 … [seit Freitag]"),
        ("seit letzter Woche", "2026-06-08 … [seit letzter Woche]"),
        ("vor der Umstellung", "-"),
        ("wer hat das hier gebaut", "-"),
        ("Mai ist ein Name", "-"),
        ("\"gestern\"", "-"),
        ("src/gestern.rs", "-"),
    ] {
        assert_eq!(read(query), expected, "{query}");
    }
}

#[test]
fn times_in_french() {
    for (query, expected) in [
        ("qu'est-ce que nous avons fait hier ?", "2026-06-19 2026-06-20 [hier]"),
        ("hier soir", "2026-06-19 2026-06-20 [hier soir]"),
        ("l'erreur d'hier", "2026-06-19 2026-06-20 [hier]"),
        ("avant-hier", "2026-06-18 2026-06-19 [avant-hier]"),
        ("aujourd’hui", "2026-06-20 2026-06-21 [aujourd’hui]"),
        ("la semaine dernière", "2026-06-08 2026-06-15 [la semaine dernière]"),
        ("le mois dernier", "2026-05-01 2026-06-01 [le mois dernier]"),
        ("l'année dernière", "2025-01-01 2026-01-01 [l'année dernière]"),
        ("il y a trois jours", "2026-06-17 2026-06-18 [il y a trois jours]"),
        ("il y a 2 semaines", "2026-06-03 2026-06-10 [il y a 2 semaines]"),
        ("lundi dernier", "2026-06-15 2026-06-16 [lundi dernier]"),
        ("en mars", "2026-03-01 2026-04-01 [en mars]"),
        ("le 3 mai", "2026-05-03 2026-05-04 [le 3 mai]"),
        ("le 1er août 2025", "2025-08-01 2025-08-02 [le 1er août 2025]"),
        ("fin février", "2026-02-20 2026-03-01 [fin février]"),
        ("depuis mardi", "2026-06-16 … [depuis mardi]"),
        ("depuis la semaine dernière", "2026-06-08 … [depuis la semaine dernière]"),
        ("avant le 3 mai", "… 2026-05-03 [avant le 3 mai]"),
        ("mars est une planète", "-"),
    ] {
        assert_eq!(read(query), expected, "{query}");
    }
}

#[test]
fn times_in_spanish() {
    for (query, expected) in [
        ("¿qué hicimos ayer?", "2026-06-19 2026-06-20 [ayer]"),
        ("anteayer", "2026-06-18 2026-06-19 [anteayer]"),
        ("antes de ayer", "2026-06-18 2026-06-19 [antes de ayer]"),
        ("hoy", "2026-06-20 2026-06-21 [hoy]"),
        ("la semana pasada", "2026-06-08 2026-06-15 [la semana pasada]"),
        ("el mes pasado", "2026-05-01 2026-06-01 [el mes pasado]"),
        ("el año pasado", "2025-01-01 2026-01-01 [el año pasado]"),
        ("hace 3 días", "2026-06-17 2026-06-18 [hace 3 días]"),
        ("hace una semana", "2026-06-10 2026-06-17 [hace una semana]"),
        ("el lunes pasado", "2026-06-15 2026-06-16 [el lunes pasado]"),
        ("en marzo", "2026-03-01 2026-04-01 [en marzo]"),
        ("el 3 de mayo de 2025", "2025-05-03 2025-05-04 [3 de mayo de 2025]"),
        ("a mediados de marzo", "2026-03-10 2026-03-21 [mediados de marzo]"),
        ("desde el miércoles", "2026-06-17 … [desde el miércoles]"),
        ("después del 4 de mayo", "2026-05-05 … [después del 4 de mayo]"),
        ("hasta el 4 de mayo", "… 2026-05-04 [hasta el 4 de mayo]"),
        ("marzo rojo", "-"),
    ] {
        assert_eq!(read(query), expected, "{query}");
    }
}

#[test]
fn times_in_chinese_and_japanese() {
    for (query, expected) in [
        ("昨天我们做了什么", "2026-06-19 2026-06-20 [昨天]"),
        ("前天的错误", "2026-06-18 2026-06-19 [前天]"),
        ("上周的迁移", "2026-06-08 2026-06-15 [上周]"),
        ("上个月", "2026-05-01 2026-06-01 [上个月]"),
        ("三天前的修复", "2026-06-17 2026-06-18 [三天前]"),
        ("2周前", "2026-06-03 2026-06-10 [2周前]"),
        ("11月3日的会话", "2025-11-03 2025-11-04 [11月3日]"),
        ("2025年3月", "2025-03-01 2025-04-01 [2025年3月]"),
        ("十一月", "2025-11-01 2025-12-01 [十一月]"),
        ("星期一", "2026-06-15 2026-06-16 [星期一]"),
        ("昨天以前", "… 2026-06-19 [昨天以前]"),
        ("昨日の修正", "2026-06-19 2026-06-20 [昨日]"),
        ("一昨日のエラー", "2026-06-18 2026-06-19 [一昨日]"),
        ("先週のマイグレーション", "2026-06-08 2026-06-15 [先週]"),
        ("先月", "2026-05-01 2026-06-01 [先月]"),
        ("２週間前", "2026-06-03 2026-06-10 [２週間前]"),
        ("5月3日から", "2026-05-03 … [5月3日から]"),
        ("月曜日の障害", "2026-06-15 2026-06-16 [月曜日]"),
        ("线上周期任务", "-"),
        ("加上周边代码", "-"),
        ("以前天天失败", "-"),
        ("日本日付の形式", "-"),
        ("\"昨天\"", "-"),
        ("第3月の", "-"),
    ] {
        assert_eq!(read(query), expected, "{query}");
    }
}

#[test]
fn what_is_a_time_in_no_language() {
    for query in [
        "hier",
        "wo ist hier der Fehler",
        "an era of mars",
        "mai tai",
        "lunes",
        "el",
        "vor",
        "il y a un problème",
        "hace",
        "3",
        "mars 12 rover",
        "ab 3 workers",
        "nach dem Fehler",
        "std::mars",
        "en",
        "avant le test",
        "月",
        "前",
    ] {
        assert_eq!(read(query), "-", "{query}");
    }
}

#[test]
fn an_option_is_a_time_in_these_languages() {
    let now: Timestamp = "2026-06-20T10:00:00Z".parse().expect("a time");
    let at =
        |text| parse_moment(text, now, &TimeZone::UTC).map(|ms| Timestamp::from_millisecond(ms).expect("a time").to_string());
    for (text, expected) in [
        ("gestern", "2026-06-19T00:00:00Z"),
        ("hier", "2026-06-19T00:00:00Z"),
        ("ayer", "2026-06-19T00:00:00Z"),
        ("昨天", "2026-06-19T00:00:00Z"),
        ("先週", "2026-06-08T00:00:00Z"),
        ("mars", "2026-03-01T00:00:00Z"),
        ("letzte Woche", "2026-06-08T00:00:00Z"),
    ] {
        assert_eq!(at(text).as_deref(), Ok(expected), "{text}");
    }
    for text in ["gestern Abend um", "seit gestern", "昨天 x", "le"] {
        assert!(at(text).is_err(), "{text}");
    }
}

proptest::proptest! {
    #[test]
    fn anything_can_be_read(query in "(vor |seit |le |el |l'|avant-|hier |mai |3 |月|日|年|十|上周|前|2025|５|\\PC){0,12}") {
        read(&query);
        parse_moment(&query, Timestamp::UNIX_EPOCH, &TimeZone::UTC).ok();
    }
}
