//! The book in `docs`: built without a warning, and its links lead somewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use scraper::{Html, Selector};

use crate::steps::Steps;
use crate::tools::{mdbook, target};

/// Builds the book, and checks its links.
pub fn check(steps: &mut Steps) -> Result<()> {
    let mut build = mdbook(steps)?;
    let (folder, mut warnings) = (target().join("book"), Vec::new());
    steps.run_with_lines("book", build.args(["build", "docs", "--dest-dir"]).arg(&folder), "", &mut |line| {
        if line.contains("WARN") || line.contains("ERROR") {
            warnings.push(line.to_owned());
        }
    })?;
    ensure!(warnings.is_empty(), "mdbook warns: {}", warnings.join("; "));
    let broken = steps.within("links of the book", || broken_links(&folder))?;
    ensure!(broken.is_empty(), "links lead nowhere:\n{}", broken.join("\n"));
    Ok(())
}

/// Links of the pages in a folder whose page or heading is not there.
fn broken_links(folder: &Path) -> Result<Vec<String>> {
    let links = Selector::parse("main a[href], main img[src]").map_err(|error| anyhow::anyhow!("{error}"))?;
    let named = Selector::parse("[id]").map_err(|error| anyhow::anyhow!("{error}"))?;
    let mut ids: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        // All pages once more, on one.
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.extension().is_none_or(|extension| extension != "html") || name == "print.html" {
            continue;
        }
        let page = Html::parse_document(&fs::read_to_string(&path)?);
        let here = page.select(&named).filter_map(|element| element.attr("id")).map(str::to_owned).collect();
        let to = |element: scraper::ElementRef<'_>| element.attr("href").or(element.attr("src")).map(str::to_owned);
        found.extend(page.select(&links).filter_map(to).map(|link| (name.clone(), link)));
        ids.insert(name, here);
    }
    let leads_nowhere = |(page, link): &(String, String)| {
        if link.contains("://") || link.starts_with("mailto:") {
            return false;
        }
        let (file, id) = link.split_once('#').unwrap_or((link, ""));
        let file = if file.is_empty() { page } else { file };
        match ids.get(file) {
            Some(known) => !id.is_empty() && !known.contains(id),
            None => !folder.join(file).exists(),
        }
    };
    Ok(found.iter().filter(|link| leads_nowhere(link)).map(|(page, link)| format!("{page}: {link}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let page = |name: &str, text: &str| fs::write(folder.path().join(name), format!("<main>{text}</main>")).unwrap();
        page("a.html", "<h2 id='x'></h2><a href='b.html#y'></a><a href='#x'></a><a href='https://example.org/z'></a>");
        page("b.html", "<h2 id='y'></h2><a href='a.html#gone'></a><a href='c.html'></a><img src='b.png'>");
        let mut broken = broken_links(folder.path()).unwrap();
        broken.sort();
        assert_eq!(broken, ["b.html: a.html#gone", "b.html: b.png", "b.html: c.html"]);
    }
}
