/*!
Prompt caching, as the Messages API does it.

The rules are those of "Prompt caching" in the Claude Platform documentation (sections "How automatic prefix checking works", "Cache
limitations" and "1-hour cache duration"; read in November 2026):

- What is cached is a prefix of the request, in the order tools, system, messages. It has to be the same to the byte.
- A breakpoint writes one entry: the prefix that ends there. The client sets one behind tools and system, and one on the last block of
  the newest message. An entry that an earlier request wrote stays, whether or not its block is marked again.
- A breakpoint finds the longest entry that ends at it or at one of the blocks before it, [`LOOKBACK_PLACES`] places in all, its own
  counted. Parallel tool calls are one place, and so are their results.
- An entry lives for five minutes or an hour and is refreshed whenever it is used. A request that has it at a breakpoint uses it.
- A prefix of less than [`LEAST_TOKENS`] is neither written nor read. (Some models ask for 512, 2,048 or 4,096; system prompt and tools
  of the client are more than that.)

[`Kind::Exact`] is the upper bound: every block ends an entry, and it is found however far back it is.
*/

use std::collections::HashMap;

/// Places that are looked at for an entry, back from a breakpoint, which is the first of them.
pub const LOOKBACK_PLACES: usize = 20;
/// Tokens that a prefix must have to be cached.
pub const LEAST_TOKENS: u64 = 1_024;
/// Lifetime of an entry unless an hour was asked for.
pub const FIVE_MINUTES_MS: i64 = 5 * 60 * 1_000;
/// Lifetime of an entry where an hour was asked for.
pub const ONE_HOUR_MS: i64 = 60 * 60 * 1_000;

/// Which cache is modelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// Breakpoints and look-back as the API has them.
    #[default]
    Api,
    /// The longest unchanged prefix, to the block.
    Exact,
}

/// A request as a list of prefixes, each a block longer than the one before. The first block is tools and system.
#[derive(Debug, Clone, Default)]
pub struct Prompt {
    prefixes: Vec<Prefix>,
    /// Leading prefixes that are those of the request before.
    unchanged: usize,
}

#[derive(Debug, Clone, Copy)]
struct Prefix {
    hash: u64,
    tokens: u64,
    run: Option<Run>,
}

/// Blocks of which several in a row are one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Run {
    /// Calls of tools.
    Calls,
    /// What they returned.
    Results,
}

impl Prompt {
    /// Number of blocks.
    pub fn len(&self) -> usize {
        self.prefixes.len()
    }

    /// Whether there are no blocks.
    pub fn is_empty(&self) -> bool {
        self.prefixes.is_empty()
    }

    /// Tokens of all blocks.
    pub fn tokens(&self) -> u64 {
        self.prefixes.last().map_or(0, |prefix| prefix.tokens)
    }

    /// Adds a block; `content` tells it from other blocks.
    pub fn push(&mut self, content: u64, tokens: u64, run: Option<Run>) {
        let (hash, so_far) = self.prefixes.last().map_or((0, 0), |before| (before.hash, before.tokens));
        self.prefixes.push(Prefix { hash: mixed(hash, content), tokens: so_far + tokens, run });
    }

    /// Drops all blocks but the first ones: what follows is not what it was.
    pub fn truncate(&mut self, blocks: usize) {
        self.prefixes.truncate(blocks);
        self.unchanged = self.unchanged.min(blocks);
    }
}

/// What a breakpoint on the last of these looks at, from there backwards.
fn in_reach(prefixes: &[Prefix]) -> impl Iterator<Item = &Prefix> {
    let (mut places, mut run) = (0, None);
    prefixes.iter().rev().take_while(move |prefix| {
        places += usize::from(prefix.run.is_none() || prefix.run != run);
        run = prefix.run;
        places <= LOOKBACK_PLACES
    })
}

/// A hash that depends on all blocks so far and their order (the finaliser of SplitMix64).
fn mixed(before: u64, content: u64) -> u64 {
    let mut hash = before.rotate_left(17) ^ content.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// How the tokens of a request are charged; their sum is the request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Served {
    /// Read from the cache.
    pub read: u64,
    /// Written to the cache.
    pub written: u64,
    /// Neither.
    pub uncached: u64,
}

/// The entries of one session.
#[derive(Debug, Clone)]
pub struct Cache {
    kind: Kind,
    lifetime_ms: i64,
    /// When each prefix was used last. Of [`Kind::Exact`], those that the request before did not have.
    used_ms: HashMap<u64, i64>,
    /// The request before, of [`Kind::Exact`]: all its prefixes were used when it was sent.
    before: Vec<u64>,
    before_ms: i64,
}

impl Cache {
    /// An empty one whose entries live for an hour or for five minutes.
    pub fn new(kind: Kind, is_hourly: bool) -> Self {
        let lifetime_ms = if is_hourly { ONE_HOUR_MS } else { FIVE_MINUTES_MS };
        Self { kind, lifetime_ms, used_ms: HashMap::new(), before: Vec::new(), before_ms: 0 }
    }

    /// Sends a request at a time in milliseconds that is not before that of the last one.
    pub fn send(&mut self, prompt: &mut Prompt, at_ms: i64) -> Served {
        let total = prompt.tokens();
        let read = match self.kind {
            Kind::Api => self.send_api(&prompt.prefixes, at_ms),
            Kind::Exact => self.send_exact(prompt, at_ms),
        };
        prompt.unchanged = prompt.prefixes.len();
        if total < LEAST_TOKENS {
            return Served { uncached: total, ..Served::default() };
        }
        Served { read, written: total - read, uncached: 0 }
    }

    fn send_api(&mut self, prefixes: &[Prefix], at_ms: i64) -> u64 {
        let breakpoints = [prefixes.len().checked_sub(1), (!prefixes.is_empty()).then_some(0)];
        let found = breakpoints
            .into_iter()
            .flatten()
            .find_map(|breakpoint| in_reach(&prefixes[..=breakpoint]).find(|prefix| self.is_alive(prefix, at_ms)).copied());
        let marked = breakpoints.into_iter().flatten().map(|breakpoint| prefixes[breakpoint]);
        for prefix in marked.chain(found).filter(|prefix| prefix.tokens >= LEAST_TOKENS) {
            self.used_ms.insert(prefix.hash, at_ms);
        }
        found.map_or(0, |prefix| prefix.tokens)
    }

    fn send_exact(&mut self, prompt: &Prompt, at_ms: i64) -> u64 {
        let prefixes = &prompt.prefixes;
        let same = prompt.unchanged.min(self.before.len());
        for hash in self.before.drain(same..) {
            self.used_ms.insert(hash, self.before_ms);
        }
        let mut found = prefixes[same..].iter().rev().find(|prefix| self.is_alive(prefix, at_ms)).copied();
        if found.is_none() && at_ms - self.before_ms < self.lifetime_ms {
            found = same.checked_sub(1).map(|last| prefixes[last]);
        }
        self.before.extend(prefixes[same..].iter().map(|prefix| prefix.hash));
        self.before_ms = at_ms;
        found.filter(|prefix| prefix.tokens >= LEAST_TOKENS).map_or(0, |prefix| prefix.tokens)
    }

    fn is_alive(&self, prefix: &Prefix, at_ms: i64) -> bool {
        prefix.tokens >= LEAST_TOKENS && self.used_ms.get(&prefix.hash).is_some_and(|used| at_ms - used < self.lifetime_ms)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Tools and system of 2,000 tokens, then blocks of 100.
    fn prompt(blocks: &[u64]) -> Prompt {
        let mut prompt = Prompt::default();
        prompt.push(0, 2_000, None);
        blocks.iter().for_each(|block| prompt.push(*block, 100, None));
        prompt
    }

    fn served(cache: &mut Cache, blocks: &[u64], at_ms: i64) -> (u64, u64, u64) {
        let Served { read, written, uncached } = cache.send(&mut prompt(blocks), at_ms);
        (read, written, uncached)
    }

    #[test]
    fn what_grows_is_read_up_to_the_last_breakpoint() {
        for kind in [Kind::Api, Kind::Exact] {
            let mut cache = Cache::new(kind, false);
            assert_eq!(served(&mut cache, &[1], 0), (0, 2_100, 0));
            assert_eq!(served(&mut cache, &[1, 2, 3], 1_000), (2_100, 200, 0));
            assert_eq!(served(&mut cache, &[1, 2, 3], 2_000), (2_300, 0, 0));
        }
    }

    #[test]
    fn a_change_in_the_middle_leaves_tools_and_system_and_in_an_exact_cache_what_is_before_it() {
        let mut cache = Cache::new(Kind::Api, false);
        served(&mut cache, &[1, 2, 3], 0);
        assert_eq!(served(&mut cache, &[1, 9, 3], 1_000), (2_000, 300, 0));
        let mut cache = Cache::new(Kind::Exact, false);
        served(&mut cache, &[1, 2, 3], 0);
        assert_eq!(served(&mut cache, &[1, 9, 3], 1_000), (2_100, 200, 0));
        // What was there before the change is not forgotten.
        assert_eq!(served(&mut cache, &[1, 2, 4], 2_000), (2_200, 100, 0));
    }

    #[test]
    fn a_breakpoint_looks_back_over_twenty_places() {
        let blocks: Vec<u64> = (1..=60).collect();
        for (more, read) in [(LOOKBACK_PLACES - 1, 2_500), (LOOKBACK_PLACES, 2_000)] {
            let mut cache = Cache::new(Kind::Api, false);
            served(&mut cache, &blocks[..5], 0);
            assert_eq!(served(&mut cache, &blocks[..5 + more], 1).0, read, "{more} more");
        }
        let mut cache = Cache::new(Kind::Exact, false);
        served(&mut cache, &blocks[..5], 0);
        assert_eq!(served(&mut cache, &blocks, 1).0, 2_500);
    }

    #[test]
    fn entries_live_as_long_as_they_are_used() {
        for kind in [Kind::Api, Kind::Exact] {
            for (is_hourly, lifetime) in [(false, FIVE_MINUTES_MS), (true, ONE_HOUR_MS)] {
                let mut cache = Cache::new(kind, is_hourly);
                served(&mut cache, &[1], 0);
                assert_eq!(served(&mut cache, &[1], lifetime - 1).0, 2_100);
                assert_eq!(served(&mut cache, &[1], 2 * lifetime - 2).0, 2_100);
                assert_eq!(served(&mut cache, &[1], 3 * lifetime - 2), (0, 2_100, 0));
            }
        }
    }

    #[test]
    fn what_is_too_short_is_not_cached() {
        for kind in [Kind::Api, Kind::Exact] {
            let mut cache = Cache::new(kind, false);
            let mut short = Prompt::default();
            short.push(0, LEAST_TOKENS - 1, None);
            assert_eq!(cache.send(&mut short, 0), Served { uncached: LEAST_TOKENS - 1, ..Served::default() });
            short.push(1, 1, None);
            assert_eq!(cache.send(&mut short, 1), Served { written: LEAST_TOKENS, ..Served::default() });
        }
    }

    proptest! {
        /// One prompt that grows and changes, as the replay has it, costs the same as one that is made anew for each request.
        #[test]
        fn an_exact_cache_reads_no_less_and_a_prompt_may_grow(
            steps in proptest::collection::vec((0_usize..30, 0_usize..25, 0_u64..3, 0_i64..200_000), 1..40),
        ) {
            let mut blocks: Vec<u64> = Vec::new();
            let (mut api, mut exact) = (Cache::new(Kind::Api, false), Cache::new(Kind::Exact, false));
            let mut anew = exact.clone();
            let mut growing = prompt(&[]);
            let mut now = 0;
            for (keep, more, flavour, gap) in steps {
                let keep = keep.min(blocks.len());
                blocks.truncate(keep);
                growing.truncate(keep + 1);
                for at in 0..more {
                    blocks.push(at as u64 * 3 + flavour);
                    growing.push(at as u64 * 3 + flavour, 100, None);
                }
                now += gap;
                let by_api = api.send(&mut prompt(&blocks), now);
                let by_exact = exact.send(&mut growing, now);
                prop_assert_eq!(anew.send(&mut prompt(&blocks), now), by_exact);
                prop_assert!(by_exact.read >= by_api.read, "{by_exact:?} {by_api:?}");
                for served in [by_api, by_exact] {
                    prop_assert_eq!(served.read + served.written + served.uncached, growing.tokens());
                }
            }
        }
    }

    #[test]
    fn parallel_calls_are_one_place() {
        let prompt = |blocks: u64, run: Option<Run>| {
            let mut prompt = Prompt::default();
            prompt.push(0, 2_000, None);
            prompt.push(1, 100, None);
            (0..blocks).for_each(|block| prompt.push(2 + block, 100, run));
            prompt
        };
        for (run, read) in [(None, 2_000), (Some(Run::Calls), 2_100), (Some(Run::Results), 2_100)] {
            let mut cache = Cache::new(Kind::Api, false);
            cache.send(&mut prompt(0, run), 0);
            assert_eq!(cache.send(&mut prompt(30, run), 1).read, read, "{run:?}");
        }
    }
}
