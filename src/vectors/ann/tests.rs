use std::convert::Infallible;
use std::fs;

use ctxbridge_testkit::Rng;
use proptest::prelude::*;

use super::*;

const DIMENSIONS: usize = 96;

/// Numbers that are spread like those of a bell.
fn noise(rng: &mut Rng) -> f32 {
    ((0..6).map(|_| rng.roll()).sum::<f64>() - 3.0) as f32
}

fn unit(mut vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
    vector.iter_mut().for_each(|number| *number /= length);
    vector
}

/// Vectors around a few topics; the same for a seed.
fn clustered(seed: u64, count: usize) -> Vec<Vec<f32>> {
    let mut topics = Rng::new(7);
    let topics: Vec<Vec<f32>> = (0..20).map(|_| (0..DIMENSIONS).map(|_| noise(&mut topics)).collect()).collect();
    let mut rng = Rng::new(seed);
    let mut one = || {
        let topic = &topics[(rng.roll() * topics.len() as f64) as usize];
        unit(topic.iter().map(|number| number + 0.8 * noise(&mut rng)).collect())
    };
    (0..count).map(|_| one()).collect()
}

/// Two vectors an entry, ids in an order of their own.
fn rows(vectors: &[Vec<f32>]) -> Vec<VectorRow> {
    let row = |(at, vector): (usize, &Vec<f32>)| {
        let number = at as i64;
        VectorRow { id: 10 + 3 * number, entry: (number / 2) ^ 1, vector: Quantized::of(vector) }
    };
    vectors.iter().enumerate().map(row).collect()
}

fn identity() -> AnnIdentity {
    AnnIdentity { model: "minilm-384".to_owned(), dimensions: DIMENSIONS, index_id: *b"an index's own 1" }
}

fn write(path: &Path, rows: &[VectorRow]) {
    let written = AnnFile::write(path, &identity(), rows.iter().cloned().map(Ok::<_, Infallible>)).expect("written");
    assert_eq!(written, rows.len());
}

fn open(path: &Path) -> AnnFile {
    AnnFile::open(path, &identity()).expect("whole").expect("there")
}

fn exact(rows: &[VectorRow], query: &[f32], allowed: Option<&HashSet<i64>>, limit: usize) -> Vec<(i64, i64)> {
    let query = Quantized::of(query);
    let mut all: Vec<(i32, &VectorRow)> = rows.iter().map(|row| (dot::dot(&query.values, &row.vector.values), row)).collect();
    all.retain(|(_, row)| allowed.is_none_or(|allowed| allowed.contains(&row.entry)));
    let cosine = |(product, row): &(i32, &VectorRow)| *product as f32 * query.scale * row.vector.scale;
    all.sort_by(|one, other| cosine(other).total_cmp(&cosine(one)).then(other.1.id.cmp(&one.1.id)));
    all.into_iter().take(limit).map(|(_, row)| (row.id, row.entry)).collect()
}

fn names(found: &[Neighbor]) -> Vec<(i64, i64)> {
    found.iter().map(|one| (one.id, one.entry)).collect()
}

/// The share of what is nearest that was found.
fn recall(nearest: &AnnFile, rows: &[VectorRow], allowed: Option<&HashSet<i64>>) -> f64 {
    let queries = clustered(1_000, 50);
    let (mut hits, mut all) = (0, 0);
    for query in &queries {
        let wanted = exact(rows, query, allowed, 10);
        let found = names(&nearest.search(query, allowed, 10).expect("whole"));
        hits += wanted.iter().filter(|one| found.contains(one)).count();
        all += wanted.len();
    }
    f64::from(hits as u32) / f64::from(all as u32)
}

#[test]
fn finds_what_comparing_all_finds() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("vectors");
    let rows = rows(&clustered(1, 9_000));
    write(&path, &rows);
    let nearest = open(&path);
    assert_eq!((nearest.len(), nearest.last_id()), (9_000, 10 + 3 * 8_999));
    let found = recall(&nearest, &rows, None);
    assert!(found >= 0.95, "recall is {found}");
    // All lists, and all of what is in them.
    let thorough = Effort { lists: 1_000, rescored: 9_000 };
    for query in clustered(2_000, 5) {
        let found = nearest.search_with(thorough, &query, None, 25).expect("whole");
        assert_eq!(names(&found), exact(&rows, &query, None, 25));
        assert!(found.iter().all(|one| one.cosine <= 1.01) && found.is_sorted_by(|one, next| one.cosine >= next.cosine));
    }
    // Few candidates, so that what is estimated matters: at random a twentieth would be found.
    let query = &clustered(3_000, 1)[0];
    let few = nearest.search_with(Effort { lists: 1_000, rescored: 450 }, query, None, 100).expect("whole");
    let hits = exact(&rows, query, None, 100).iter().filter(|one| names(&few).contains(one)).count();
    assert!(hits >= 90, "{hits} of 100");
}

#[test]
fn a_filter_lets_nothing_else_through() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("vectors");
    let rows = rows(&clustered(1, 12_000));
    write(&path, &rows);
    let nearest = open(&path);
    let query = &clustered(4_000, 1)[0];
    for step in [2, 60, 3_000] {
        // Also what is in no file.
        let allowed: HashSet<i64> = (0..7_000).filter(|entry| entry % step == 0).collect();
        let found = nearest.search(query, Some(&allowed), 10).expect("whole");
        assert!(!found.is_empty() && found.iter().all(|one| allowed.contains(&one.entry)), "{step}");
        // So few are all compared.
        assert_eq!(names(&found), exact(&rows, query, Some(&allowed), 10), "{step}");
    }
    let most: HashSet<i64> = (0..6_000).filter(|entry| entry % 4 != 0).collect();
    assert!(most.len() > MAX_EXACT_ENTRIES);
    let found = recall(&nearest, &rows, Some(&most));
    assert!(found >= 0.95, "recall is {found}");
    assert_eq!(nearest.search(query, Some(&HashSet::new()), 10).expect("whole"), []);
}

/// An entry whose lines go over several pages of the directory.
#[test]
fn an_entry_of_many_passages_is_found_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("vectors");
    let mut rows = rows(&clustered(1, 900));
    rows[100..500].iter_mut().for_each(|row| row.entry = 5_000);
    write(&path, &rows);
    let found = open(&path).search(&clustered(2, 1)[0], Some(&HashSet::from([5_000])), 1_000).expect("whole");
    assert_eq!(found.len(), 400);
    assert!(found.iter().all(|one| one.entry == 5_000));
}

#[test]
fn few_or_none_are_no_special_case() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("vectors");
    let query = vec![0.1; DIMENSIONS];
    for count in [0, 1, 2, 33] {
        let rows = rows(&clustered(1, count));
        write(&path, &rows);
        let nearest = open(&path);
        assert_eq!(nearest.is_empty(), count == 0);
        assert_eq!(names(&nearest.search(&query, None, 100).expect("whole")), exact(&rows, &query, None, 100));
        let allowed = HashSet::from([1]);
        assert_eq!(
            names(&nearest.search(&query, Some(&allowed), 100).expect("whole")),
            exact(&rows, &query, Some(&allowed), 100)
        );
    }
    // A query that points nowhere.
    assert_eq!(open(&path).search(&[0.0; DIMENSIONS], None, 5).expect("whole").len(), 5);
    open(&path).search(&[0.0; 3], None, 5).expect_err("another model");
}

#[test]
fn what_is_of_something_else_is_not_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("vectors");
    assert!(AnnFile::open(&path, &identity()).expect("nothing wrong").is_none());
    write(&path, &rows(&clustered(1, 50)));
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).expect("there").permissions());
        assert_eq!(mode & 0o777, 0o600);
    }
    let why = |identity: &AnnIdentity| {
        let error = AnnFile::open(&path, identity).expect_err("unusable").to_string();
        error.split_once(": ").map(|(_, why)| why.to_owned()).expect("a reason")
    };
    let mut reasons = vec![
        why(&AnnIdentity { model: "other-384".to_owned(), ..identity() }),
        why(&AnnIdentity { dimensions: 384, ..identity() }),
        why(&AnnIdentity { index_id: [0; 16], ..identity() }),
    ];
    let whole = fs::read(&path).expect("readable");
    for (at, byte) in [(7, b'0'), (0, b'x'), (30, 0xff), (whole.len() - 1, whole[whole.len() - 1] ^ 1)] {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        fs::write(&path, bytes).expect("writable");
        reasons.push(why(&identity()));
    }
    for length in [0, 60, 128, whole.len() - 1] {
        fs::write(&path, &whole[..length]).expect("writable");
        reasons.push(why(&identity()));
    }
    insta::assert_snapshot!(reasons.join("\n"), @r"
    its vectors are of another model
    its vectors are of another model
    it was made of another index
    it is of another version
    it is something else
    the checksum of its header is wrong
    the checksum of its tables is wrong
    it is cut off
    it is cut off
    it has 128 bytes, not 21860
    it has 21859 bytes, not 21860
    ");
}

#[test]
fn a_failure_leaves_the_file_before() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("vectors");
    let rows = rows(&clustered(1, 40));
    write(&path, &rows);
    let before = fs::read(&path).expect("readable");
    let broken = rows.iter().cloned().map(Ok).chain([Err("the database is gone")]);
    assert!(matches!(AnnFile::write(&path, &identity(), broken), Err(WriteError::Rows("the database is gone"))));
    let other = VectorRow { vector: Quantized::of(&[1.0; 3]), ..rows[0].clone() };
    let error = AnnFile::write(&path, &identity(), [Ok::<_, Infallible>(other)].into_iter()).expect_err("another model");
    assert!(matches!(error, WriteError::File { .. }));
    let long = AnnIdentity { model: "m".repeat(41), ..identity() };
    AnnFile::write(&path, &long, rows.iter().cloned().map(Ok::<_, Infallible>)).expect_err("no room for the name");
    assert_eq!(fs::read(&path).expect("readable"), before);
    // While one is written, nobody begins another.
    let mut inner = None;
    let outer = rows.iter().cloned().map(|row| {
        inner = Some(AnnFile::write(&path, &identity(), [Ok::<_, Infallible>(row.clone())].into_iter()));
        Ok::<_, Infallible>(row)
    });
    assert_eq!(AnnFile::write(&path, &identity(), outer).expect("written"), 40);
    assert!(matches!(inner, Some(Err(WriteError::Busy(_)))));
    assert_eq!(open(&path).len(), 40);
    let mut left: Vec<_> =
        fs::read_dir(folder.path()).expect("a folder").map(|entry| entry.expect("a file").file_name()).collect();
    left.sort();
    assert_eq!(left, ["vectors", "vectors.lock"]);
}

#[test]
fn readers_see_one_file_or_the_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("vectors");
    let (small, large) = (rows(&clustered(1, 300)), rows(&clustered(2, 700)));
    write(&path, &small);
    let query = &clustered(5, 1)[0];
    let wanted = [&small, &large].map(|rows| exact(rows, query, None, 5));
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let nearest = open(&path);
                        let found = names(&nearest.search(query, None, 5).expect("whole"));
                        assert_eq!(found, wanted[usize::from(nearest.len() == 700)]);
                    }
                })
            })
            .collect();
        while !readers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            for rows in [&large, &small] {
                let written = AnnFile::write(&path, &identity(), rows.iter().cloned().map(Ok::<_, Infallible>));
                // On Windows what is open cannot be replaced. Whoever waits in vain for a moment when it is not leaves the old file.
                assert!(written.is_ok() || cfg!(windows), "{written:?}");
            }
        }
    });
}

#[test]
fn the_same_vectors_make_the_same_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
    let rows = rows(&clustered(1, 500));
    write(&one, &rows);
    write(&other, &rows);
    assert!(fs::read(one).expect("readable") == fs::read(other).expect("readable"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ctxbridge_testkit::share_of(400)))]

    /// Whatever is changed in a file, it is seen, or what is found is right.
    #[test]
    fn damage_is_noticed_or_harmless(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), 1_u8..), 1..4),
        cut in proptest::option::weighted(0.1, any::<prop::sample::Index>()),
        is_filtered in any::<bool>(),
    ) {
        static WHOLE: std::sync::OnceLock<(Vec<u8>, Vec<VectorRow>)> = std::sync::OnceLock::new();
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("vectors");
        let (whole, rows) = WHOLE.get_or_init(|| {
            let rows = rows(&clustered(1, 120));
            write(&path, &rows);
            (fs::read(&path).expect("readable"), rows)
        });
        let mut bytes = whole.clone();
        for (at, bits) in &changes {
            *at.get_mut(&mut bytes) ^= bits;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        prop_assume!(&bytes != whole);
        fs::write(&path, &bytes).expect("writable");
        let query = &clustered(6, 1)[0];
        let allowed: Option<HashSet<i64>> = is_filtered.then(|| (0..20).collect());
        if let Ok(nearest) = AnnFile::open(&path, &identity()) {
            let nearest = nearest.expect("there");
            let effort = Effort { lists: 5, rescored: 20 };
            if let Ok(found) = nearest.search_with(effort, query, allowed.as_ref(), 5) {
                fs::write(&path, whole).expect("writable");
                let before = open(&path).search_with(effort, query, allowed.as_ref(), 5).expect("whole");
                prop_assert_eq!(found, before);
                if is_filtered {
                    let right = exact(rows, query, allowed.as_ref(), 5);
                    prop_assert_eq!(names(&open(&path).search(query, allowed.as_ref(), 5).expect("whole")), right);
                }
            }
        }
    }

    /// The estimate of all vectors' products is the sum of signs that it is meant to be.
    #[test]
    fn sums_of_signs(
        query in proptest::collection::vec(-7_i8..=7, 1..500),
        codes in proptest::collection::vec(proptest::collection::vec(any::<bool>(), 500), LANES),
    ) {
        let numbers: Vec<f32> = query.iter().map(|number| f32::from(*number)).chain([7.0]).collect();
        let mut block = vec![0; LANES * code_bytes(numbers.len())];
        for (lane, code) in codes.iter().enumerate() {
            let residual: Vec<f32> = (0..numbers.len()).map(|at| if code.get(at) == Some(&true) { 1.0 } else { -1.0 }).collect();
            prop_assert!((bit_codes::encode(&residual, &mut block, lane) - 1.0).abs() < 1e-5);
        }
        for (sum, code) in BitPlanes::of(&numbers).sums(&block).iter().zip(&codes) {
            let signed = numbers.iter().enumerate().map(|(at, number)| if code.get(at) == Some(&true) { *number } else { -number });
            prop_assert_eq!(*sum, signed.sum::<f32>());
        }
    }
}
