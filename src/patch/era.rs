//! Eras of the client, to which releases belong (`patches/eras.toml`).

use std::sync::LazyLock;

use semver::{Version, VersionReq};
use serde::Deserialize;

use super::schema::in_range;

#[derive(Deserialize)]
struct Eras {
    era: Vec<Era>,
}

#[derive(Deserialize)]
struct Era {
    name: String,
    versions: VersionReq,
}

static ERAS: LazyLock<Vec<Era>> = LazyLock::new(|| {
    toml::from_str::<Eras>(include_str!("../../patches/eras.toml")).map_or_else(|_| Vec::new(), |eras| eras.era)
});

/// The era of a release, if it is known.
pub fn era(version: &Version) -> Option<&'static str> {
    ERAS.iter().find(|era| in_range(&era.versions, Some(version))).map(|era| era.name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_releases_are_of_the_era_that_their_list_says() {
        for release in ctxbridge_client::releases::known() {
            assert_eq!(era(release.client_version()), Some(release.era.as_str()), "{} {}", release.package, release.version);
        }
        assert_eq!(era(&Version::new(1, 0, 0)), Some("E0"));
        assert_eq!(era(&Version::new(2, 1, 260)), Some("E5a"));
        assert_eq!(era(&Version::new(2, 2, 0)), Some("E5d"), "the newest is open-ended");
    }
}
