//! The time zone of this machine.

use std::fs;

use jiff::tz::TimeZone;

/// File in which Unix systems have the zone of this machine.
const LOCAL: &str = "/etc/localtime";

/// Returns the system's time zone. Where nothing else is asked for, it is read from its file: to find a zone by its name, the names of
/// all six hundred are read first, which takes as long as a search.
pub fn local_zone() -> TimeZone {
    let is_named = std::env::var_os("TZ").is_some();
    let read = || TimeZone::tzif("", &fs::read(LOCAL).ok()?).ok();
    if is_named { None } else { read() }.unwrap_or_else(TimeZone::system)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn the_zone_is_that_of_the_system() {
        for second in [0, 1_720_000_000, 1_766_000_000, 4_000_000_000] {
            let time = Timestamp::from_second(second).expect("a time");
            assert_eq!(local_zone().to_offset(time), TimeZone::system().to_offset(time));
        }
    }
}
