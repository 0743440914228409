/*!
Entitlements: permissions of a program. The signature has them twice, as a property list in XML and in DER.

macOS does not start a program with entitlements that need a provisioning profile, unless its signer has one; an ad-hoc signature
has no signer. Such entitlements are removed: a missing function is better than a client that does not start. Those of Claude Code
2.1.330 need no profile, and then the blobs stay as they are, byte for byte.
*/

use std::ops::Range;

use super::slot;

/// Format of entitlements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntitlementsFormat {
    Xml,
    Der,
}

const XML: u32 = 0xfade_7171;
const DER: u32 = 0xfade_7172;
/// A blob's magic number and length.
const HEAD: usize = 8;

const FOREIGN_LIBRARIES: &[u8] = b"com.apple.security.cs.disable-library-validation";

impl EntitlementsFormat {
    pub(super) fn of_slot(slot: u32) -> Option<Self> {
        match slot {
            slot::ENTITLEMENTS_XML => Some(Self::Xml),
            slot::ENTITLEMENTS_DER => Some(Self::Der),
            _ => None,
        }
    }

    fn magic(self) -> u32 {
        if self == Self::Xml { XML } else { DER }
    }

    fn is_true(self, value: &[u8]) -> bool {
        match self {
            Self::Xml => value.trim_ascii() == b"<true/>",
            Self::Der => value == [BOOLEAN, 1, 0xff],
        }
    }
}

/// `true` if everybody may have an entitlement. Of the families that Apple documents, this is the one of the sandbox and the
/// hardened runtime, except for groups, which belong to a team. `keychain-access-groups`, `com.apple.application-identifier`,
/// `com.apple.developer.*` and `com.apple.private.*` are not free.
fn is_free(key: &[u8]) -> bool {
    key.starts_with(b"com.apple.security.") && key != b"com.apple.security.application-groups"
}

/// The blob without the entitlements that an ad-hoc signature cannot have; `None` if it cannot be read.
pub(super) fn without_restricted(form: EntitlementsFormat, blob: &[u8]) -> Option<Vec<u8>> {
    let entries = entries(form, blob)?;
    if entries.iter().all(|entry| is_free(entry.key)) {
        return Some(blob.to_vec());
    }
    let payload = match form {
        EntitlementsFormat::Xml => {
            let mut kept = blob.to_vec();
            for entry in entries.iter().rev().filter(|entry| !is_free(entry.key)) {
                kept.drain(entry.range.clone());
            }
            kept.split_off(HEAD)
        }
        EntitlementsFormat::Der => {
            let kept = entries.iter().filter(|entry| is_free(entry.key)).filter_map(|entry| blob.get(entry.range.clone()));
            let dictionary = der(DICTIONARY, &kept.collect::<Vec<_>>().concat());
            der(ENTITLEMENTS, &[&VERSION[..], &dictionary].concat())
        }
    };
    let length = u32::try_from(HEAD + payload.len()).ok()?;
    Some([&form.magic().to_be_bytes()[..], &length.to_be_bytes(), &payload].concat())
}

/// `true` if the program may load libraries that its signer has not signed.
pub(super) fn allow_foreign_libraries(form: EntitlementsFormat, blob: &[u8]) -> bool {
    let entries = entries(form, blob).unwrap_or_default();
    entries.iter().any(|entry| entry.key == FOREIGN_LIBRARIES && form.is_true(entry.value))
}

/// An entitlement: its range in the blob, its name, and its value as written there.
#[derive(Debug)]
struct Entitlement<'blob> {
    range: Range<usize>,
    key: &'blob [u8],
    value: &'blob [u8],
}

fn entries(form: EntitlementsFormat, blob: &[u8]) -> Option<Vec<Entitlement<'_>>> {
    let (head, _) = blob.split_first_chunk::<4>()?;
    if u32::from_be_bytes(*head) != form.magic() {
        return None;
    }
    match form {
        EntitlementsFormat::Xml => xml_entries(blob),
        EntitlementsFormat::Der => der_entries(blob),
    }
}

/// The entries of a property list's outermost dictionary.
fn xml_entries(blob: &[u8]) -> Option<Vec<Entitlement<'_>>> {
    let mut xml = Xml { blob, at: HEAD };
    loop {
        match xml.tag()? {
            tag if tag.starts_with(b"?") || tag.starts_with(b"!") || tag.starts_with(b"plist") => (),
            b"dict" => break,
            b"dict/" => return Some(Vec::new()),
            _ => return None,
        }
    }
    let mut entries = Vec::new();
    loop {
        let (start, tag) = (xml.next_tag()?, xml.tag()?);
        match tag {
            b"/dict" => return Some(entries),
            b"key" => {
                let from = xml.at;
                let key = blob.get(from..xml.next_tag()?)?.trim_ascii();
                let (b"/key", value) = (xml.tag()?, xml.at) else { return None };
                xml.skip_element()?;
                // An entity in a name could hide what it is.
                if key.contains(&b'&') {
                    return None;
                }
                entries.push(Entitlement { range: start..xml.at, key, value: blob.get(value..xml.at)? });
            }
            _ => return None,
        }
    }
}

/// Reads property lists tag by tag: the part of XML that `codesign` accepts.
struct Xml<'blob> {
    blob: &'blob [u8],
    at: usize,
}

impl<'blob> Xml<'blob> {
    /// Position of the next tag.
    fn next_tag(&self) -> Option<usize> {
        Some(self.at + self.blob.get(self.at..)?.iter().position(|byte| *byte == b'<')?)
    }

    /// The text between the brackets of the next tag. Comments are skipped; CDATA sections are not supported.
    fn tag(&mut self) -> Option<&'blob [u8]> {
        loop {
            let start = self.next_tag()? + 1;
            let rest = self.blob.get(start..)?;
            let comment = rest.starts_with(b"!--");
            let end: &[u8] = if comment { b"-->" } else { b">" };
            let length = rest.windows(end.len()).position(|bytes| bytes == end)?;
            self.at = start + length + end.len();
            match rest.get(..length)? {
                _ if comment => (),
                tag if tag.starts_with(b"![") => return None,
                tag => return Some(tag.trim_ascii()),
            }
        }
    }

    /// Skips an element and everything in it.
    fn skip_element(&mut self) -> Option<()> {
        let mut depth = 0usize;
        loop {
            let tag = self.tag()?;
            if tag.starts_with(b"/") {
                depth = depth.checked_sub(1)?;
            } else if !tag.ends_with(b"/") {
                depth += 1;
            }
            if depth == 0 {
                return Some(());
            }
        }
    }
}

const BOOLEAN: u8 = 0x01;
const TEXT: u8 = 0x0c;
const SEQUENCE: u8 = 0x30;
/// Apple's own tags: of the whole, and of the list of entries.
const ENTITLEMENTS: u8 = 0x70;
const DICTIONARY: u8 = 0xb0;
/// The integer 1.
const VERSION: [u8; 3] = [0x02, 1, 1];

fn der_entries(blob: &[u8]) -> Option<Vec<Entitlement<'_>>> {
    let whole = Der::read(blob, HEAD..blob.len(), ENTITLEMENTS)?;
    let version = blob.get(whole.contents.clone())?.starts_with(&VERSION);
    let dictionary = Der::read(blob, whole.contents.start + VERSION.len()..whole.contents.end, DICTIONARY)?;
    if !version || whole.end() != blob.len() || dictionary.end() != whole.end() {
        return None;
    }
    let mut entries = Vec::new();
    let mut at = dictionary.contents.start;
    while at < dictionary.end() {
        let pair = Der::read(blob, at..dictionary.end(), SEQUENCE)?;
        let key = Der::read(blob, pair.contents.clone(), TEXT)?;
        let value = blob.get(key.end()..pair.end())?;
        entries.push(Entitlement { range: at..pair.end(), key: blob.get(key.contents)?, value });
        at = pair.end();
    }
    Some(entries)
}

/// A value in DER: the range of its contents.
struct Der {
    contents: Range<usize>,
}

impl Der {
    /// Reads the value of this type at the start of a part of the blob.
    fn read(blob: &[u8], part: Range<usize>, tag: u8) -> Option<Self> {
        let [found, length, rest @ ..] = blob.get(part.clone())? else { return None };
        // Up to 127 the length itself, else how many bytes have it.
        let wide = length.checked_sub(0x80).unwrap_or_default() as usize;
        if *found != tag || wide > 4 || *length == 0x80 {
            return None;
        }
        let length = match wide {
            0 => *length as usize,
            _ => rest.get(..wide)?.iter().fold(0, |length, byte| length << 8 | *byte as usize),
        };
        let start = part.start + 2 + wide;
        let contents = start..start.checked_add(length)?;
        (contents.end <= part.end).then_some(Self { contents })
    }

    fn end(&self) -> usize {
        self.contents.end
    }
}

fn der(tag: u8, contents: &[u8]) -> Vec<u8> {
    let length = contents.len().to_be_bytes();
    let significant = length.iter().position(|byte| *byte != 0).map_or(&[][..], |first| &length[first..]);
    let mut value = vec![tag];
    if contents.len() < 0x80 {
        value.push(contents.len() as u8);
    } else {
        value.push(0x80 | significant.len() as u8);
        value.extend(significant);
    }
    value.extend(contents);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob(form: EntitlementsFormat, payload: &[u8]) -> Vec<u8> {
        [&form.magic().to_be_bytes()[..], &(payload.len() as u32 + 8).to_be_bytes(), payload].concat()
    }

    fn plist(inner: &str) -> Vec<u8> {
        let head = "<?xml version=\"1.0\"?>\n<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"\">\n<!-- <dict> -->";
        blob(EntitlementsFormat::Xml, format!("{head}<plist version=\"1.0\">{inner}</plist>\n").as_bytes())
    }

    fn dictionary(pairs: &[(&str, &[u8])]) -> Vec<u8> {
        let pairs: Vec<_> =
            pairs.iter().map(|(key, value)| der(SEQUENCE, &[&der(TEXT, key.as_bytes())[..], value].concat())).collect();
        blob(EntitlementsFormat::Der, &der(ENTITLEMENTS, &[&VERSION[..], &der(DICTIONARY, &pairs.concat())].concat()))
    }

    const TRUE: &[u8] = &[BOOLEAN, 1, 0xff];
    const FALSE: &[u8] = &[BOOLEAN, 1, 0];
    const LOADING: &str = "com.apple.security.cs.disable-library-validation";

    #[test]
    fn what_needs_a_profile_goes() {
        let jit = "<key>com.apple.security.cs.allow-jit</key> <true/>\n";
        let loading = format!("<key>{LOADING}</key><!-- add-ons --><true/>");
        let restricted = "<key>keychain-access-groups</key><array><string>TEAM.a</string><array><false/></array></array>";
        let team = "<key>com.apple.developer.team-identifier</key>\n<string>TEAM</string>";
        let groups = "<key>com.apple.security.application-groups</key><array/>";
        let xml = plist(&format!("<dict>{restricted}{jit}{groups}{loading}{team}</dict>"));
        let kept = without_restricted(EntitlementsFormat::Xml, &xml).expect("readable");
        assert_eq!(kept, plist(&format!("<dict>{jit}{loading}</dict>")));
        assert_eq!(without_restricted(EntitlementsFormat::Xml, &kept), Some(kept));

        let long = der(SEQUENCE, &[7; 300]);
        let all = [("com.apple.security.cs.allow-jit", TRUE), ("keychain-access-groups", &long), (LOADING, TRUE)];
        let kept = without_restricted(EntitlementsFormat::Der, &dictionary(&all)).expect("readable");
        assert_eq!(kept, dictionary(&[all[0], all[2]]));
        assert_eq!(without_restricted(EntitlementsFormat::Der, &kept), Some(kept));
    }

    #[test]
    fn only_what_is_true_is_allowed() {
        let xml = |value: &str| plist(&format!("<dict><key>{LOADING}</key>{value}</dict>"));
        assert!(
            allow_foreign_libraries(EntitlementsFormat::Xml, &xml(" <true/> "))
                && !allow_foreign_libraries(EntitlementsFormat::Xml, &xml("<false/>"))
        );
        let der = |value| dictionary(&[(LOADING, value)]);
        assert!(
            allow_foreign_libraries(EntitlementsFormat::Der, &der(TRUE))
                && !allow_foreign_libraries(EntitlementsFormat::Der, &der(FALSE))
        );
        assert!(
            !allow_foreign_libraries(EntitlementsFormat::Xml, &plist("<dict/>"))
                && !allow_foreign_libraries(EntitlementsFormat::Der, &dictionary(&[]))
        );
    }

    #[test]
    fn what_is_not_understood_is_not_read() {
        let inner = [
            "",
            "<dict>",
            "<dict><key>a</key></dict>",
            "<dict><true/></dict>",
            "<dict><key>a<true/></key></dict>",
            "<dict><key>a</key><![CDATA[<true/>]]></dict>",
            "<dict><key>a</key><array></dict>",
            "<dict><key>com&#46;apple</key><true/></dict>",
            "<array/>",
        ];
        for inner in inner {
            assert_eq!(without_restricted(EntitlementsFormat::Xml, &plist(inner)), None, "{inner}");
        }
        let sound = dictionary(&[("a", TRUE)]);
        for length in 0..sound.len() {
            assert_eq!(without_restricted(EntitlementsFormat::Der, &sound[..length]), None);
        }
        for (at, byte) in [(0, 0), (8, 0x71), (9, 0x80), (9, 0x8f), (9, 0), (12, 2), (13, 0x30), (15, 0x31), (17, 4), (18, 9)] {
            let mut broken = sound.clone();
            broken[at] = byte;
            assert_eq!(without_restricted(EntitlementsFormat::Der, &broken), None, "{at}");
        }
        assert_eq!(without_restricted(EntitlementsFormat::Xml, &sound), None);
        assert_eq!(without_restricted(EntitlementsFormat::Der, &plist("<dict/>")), None);
    }
}
