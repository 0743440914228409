/*!
CacheableRequest caching, as the Messages API does it.

The rules are those of "CacheableRequest caching" in the Claude Platform documentation (sections "How automatic prefix checking works", "Cache
limitations" and "1-hour cache duration"; read in November 2026):

- What is cached is a prefix of the request, in the order tools, system, messages. It has to be the same to the byte.
- A breakpoint writes one entry: the prefix that ends there. The client sets one behind tools and system, and one on the last
  block of the newest message. An entry that an earlier request wrote stays, even if its block is not marked again.
- A breakpoint finds the longest entry that ends at it or at one of the blocks before it, [`LOOKBACK_PLACES`] places in all, its own
  counted. Parallel tool calls are one place, and so are their results.
- An entry lives for five minutes or an hour and is refreshed whenever it is used. A request that has it at a breakpoint uses it.
- A prefix of less than [`MIN_CACHED_TOKENS`] is neither written nor read. (Some models require 512, 2,048 or 4,096; system prompt and
  tools of the client are more than that.)

[`CacheModel::Exact`] is the upper bound: every block ends an entry, and it is found however far back it is.
*/

use std::collections::HashMap;

/// Number of places that are checked for an entry, back from a breakpoint, which is the first of them.
pub const LOOKBACK_PLACES: usize = 20;
/// Minimum tokens of a prefix to be cached.
pub const MIN_CACHED_TOKENS: u64 = 1_024;
/// Default lifetime of an entry.
pub const FIVE_MINUTES_MS: i64 = 5 * 60 * 1_000;
/// Lifetime of an entry if an hour was asked for.
pub const ONE_HOUR_MS: i64 = 60 * 60 * 1_000;

/// Model of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CacheModel {
    /// Breakpoints and look-back as the API has them.
    #[default]
    Api,
    /// Finds the longest unchanged prefix, to the block.
    Exact,
}

/// A request as a list of prefixes, each a block longer than the one before. The first block is tools and system.
#[derive(Debug, Clone, Default)]
pub struct CacheableRequest {
    prefixes: Vec<CachePrefix>,
    /// Number of leading prefixes that equal those of the request before.
    unchanged: usize,
}

#[derive(Debug, Clone, Copy)]
struct CachePrefix {
    hash: u64,
    tokens: u64,
    run: Option<BlockRun>,
}

/// Kinds of blocks of which several in a row are one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockRun {
    /// Calls of tools.
    Calls,
    /// Results of tools.
    Results,
}

impl CacheableRequest {
    /// Number of blocks.
    pub fn len(&self) -> usize {
        self.prefixes.len()
    }

    /// `true` if there are no blocks.
    pub fn is_empty(&self) -> bool {
        self.prefixes.is_empty()
    }

    /// Tokens of all blocks.
    pub fn tokens(&self) -> u64 {
        self.prefixes.last().map_or(0, |prefix| prefix.tokens)
    }

    /// Adds a block; `content` identifies it.
    pub fn push(&mut self, content: u64, tokens: u64, run: Option<BlockRun>) {
        let (hash, so_far) = self.prefixes.last().map_or((0, 0), |before| (before.hash, before.tokens));
        self.prefixes.push(CachePrefix { hash: mixed(hash, content), tokens: so_far + tokens, run });
    }

    /// Drops all blocks but the first ones, since the rest has changed.
    pub fn truncate(&mut self, blocks: usize) {
        self.prefixes.truncate(blocks);
        self.unchanged = self.unchanged.min(blocks);
    }
}

/// The prefixes that a breakpoint on the last of these checks, from there backwards.
fn in_reach(prefixes: &[CachePrefix]) -> impl Iterator<Item = &CachePrefix> {
    let (mut places, mut run) = (0, None);
    prefixes.iter().rev().take_while(move |prefix| {
        places += usize::from(prefix.run.is_none() || prefix.run != run);
        run = prefix.run;
        places <= LOOKBACK_PLACES
    })
}

/// A hash that depends on all blocks so far and their order (the finalizer of SplitMix64).
fn mixed(before: u64, content: u64) -> u64 {
    let mut hash = before.rotate_left(17) ^ content.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// Tokens of a request by the way they are charged; their sum is the whole request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChargedTokens {
    /// Read from the cache.
    pub read: u64,
    /// Written to the cache.
    pub written: u64,
    /// Neither read nor written.
    pub uncached: u64,
}

/// The entries of one session.
#[derive(Debug, Clone)]
pub struct SimulatedCache {
    kind: CacheModel,
    lifetime_ms: i64,
    /// Time of the last use of each prefix. With [`CacheModel::Exact`], only of those that the request before did not have.
    used_ms: HashMap<u64, i64>,
    /// Prefixes of the request before, with [`CacheModel::Exact`]: all of them were used when it was sent.
    before: Vec<u64>,
    before_ms: i64,
}

impl SimulatedCache {
    /// Makes an empty cache whose entries live for an hour or for five minutes.
    pub fn new(kind: CacheModel, is_hourly: bool) -> Self {
        let lifetime_ms = if is_hourly { ONE_HOUR_MS } else { FIVE_MINUTES_MS };
        Self { kind, lifetime_ms, used_ms: HashMap::new(), before: Vec::new(), before_ms: 0 }
    }

    /// Sends a request at a time in milliseconds, which must not be before that of the last request.
    pub fn send(&mut self, prompt: &mut CacheableRequest, at_ms: i64) -> ChargedTokens {
        let total = prompt.tokens();
        let read = match self.kind {
            CacheModel::Api => self.send_api(&prompt.prefixes, at_ms),
            CacheModel::Exact => self.send_exact(prompt, at_ms),
        };
        prompt.unchanged = prompt.prefixes.len();
        if total < MIN_CACHED_TOKENS {
            return ChargedTokens { uncached: total, ..ChargedTokens::default() };
        }
        ChargedTokens { read, written: total - read, uncached: 0 }
    }

    fn send_api(&mut self, prefixes: &[CachePrefix], at_ms: i64) -> u64 {
        let breakpoints = [prefixes.len().checked_sub(1), (!prefixes.is_empty()).then_some(0)];
        let found = breakpoints
            .into_iter()
            .flatten()
            .find_map(|breakpoint| in_reach(&prefixes[..=breakpoint]).find(|prefix| self.is_alive(prefix, at_ms)).copied());
        let marked = breakpoints.into_iter().flatten().map(|breakpoint| prefixes[breakpoint]);
        for prefix in marked.chain(found).filter(|prefix| prefix.tokens >= MIN_CACHED_TOKENS) {
            self.used_ms.insert(prefix.hash, at_ms);
        }
        found.map_or(0, |prefix| prefix.tokens)
    }

    fn send_exact(&mut self, prompt: &CacheableRequest, at_ms: i64) -> u64 {
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
        found.filter(|prefix| prefix.tokens >= MIN_CACHED_TOKENS).map_or(0, |prefix| prefix.tokens)
    }

    fn is_alive(&self, prefix: &CachePrefix, at_ms: i64) -> bool {
        prefix.tokens >= MIN_CACHED_TOKENS && self.used_ms.get(&prefix.hash).is_some_and(|used| at_ms - used < self.lifetime_ms)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Tools and system of 2,000 tokens, then blocks of 100.
    fn prompt(blocks: &[u64]) -> CacheableRequest {
        let mut prompt = CacheableRequest::default();
        prompt.push(0, 2_000, None);
        blocks.iter().for_each(|block| prompt.push(*block, 100, None));
        prompt
    }

    fn served(cache: &mut SimulatedCache, blocks: &[u64], at_ms: i64) -> (u64, u64, u64) {
        let ChargedTokens { read, written, uncached } = cache.send(&mut prompt(blocks), at_ms);
        (read, written, uncached)
    }

    #[test]
    fn what_grows_is_read_up_to_the_last_breakpoint() {
        for kind in [CacheModel::Api, CacheModel::Exact] {
            let mut cache = SimulatedCache::new(kind, false);
            assert_eq!(served(&mut cache, &[1], 0), (0, 2_100, 0));
            assert_eq!(served(&mut cache, &[1, 2, 3], 1_000), (2_100, 200, 0));
            assert_eq!(served(&mut cache, &[1, 2, 3], 2_000), (2_300, 0, 0));
        }
    }

    #[test]
    fn a_change_in_the_middle_leaves_tools_and_system_and_in_an_exact_cache_what_is_before_it() {
        let mut cache = SimulatedCache::new(CacheModel::Api, false);
        served(&mut cache, &[1, 2, 3], 0);
        assert_eq!(served(&mut cache, &[1, 9, 3], 1_000), (2_000, 300, 0));
        let mut cache = SimulatedCache::new(CacheModel::Exact, false);
        served(&mut cache, &[1, 2, 3], 0);
        assert_eq!(served(&mut cache, &[1, 9, 3], 1_000), (2_100, 200, 0));
        // What was there before the change is not forgotten.
        assert_eq!(served(&mut cache, &[1, 2, 4], 2_000), (2_200, 100, 0));
    }

    #[test]
    fn a_breakpoint_looks_back_over_twenty_places() {
        let blocks: Vec<u64> = (1..=60).collect();
        for (more, read) in [(LOOKBACK_PLACES - 1, 2_500), (LOOKBACK_PLACES, 2_000)] {
            let mut cache = SimulatedCache::new(CacheModel::Api, false);
            served(&mut cache, &blocks[..5], 0);
            assert_eq!(served(&mut cache, &blocks[..5 + more], 1).0, read, "{more} more");
        }
        let mut cache = SimulatedCache::new(CacheModel::Exact, false);
        served(&mut cache, &blocks[..5], 0);
        assert_eq!(served(&mut cache, &blocks, 1).0, 2_500);
    }

    #[test]
    fn entries_live_as_long_as_they_are_used() {
        for kind in [CacheModel::Api, CacheModel::Exact] {
            for (is_hourly, lifetime) in [(false, FIVE_MINUTES_MS), (true, ONE_HOUR_MS)] {
                let mut cache = SimulatedCache::new(kind, is_hourly);
                served(&mut cache, &[1], 0);
                assert_eq!(served(&mut cache, &[1], lifetime - 1).0, 2_100);
                assert_eq!(served(&mut cache, &[1], 2 * lifetime - 2).0, 2_100);
                assert_eq!(served(&mut cache, &[1], 3 * lifetime - 2), (0, 2_100, 0));
            }
        }
    }

    #[test]
    fn what_is_too_short_is_not_cached() {
        for kind in [CacheModel::Api, CacheModel::Exact] {
            let mut cache = SimulatedCache::new(kind, false);
            let mut short = CacheableRequest::default();
            short.push(0, MIN_CACHED_TOKENS - 1, None);
            assert_eq!(cache.send(&mut short, 0), ChargedTokens { uncached: MIN_CACHED_TOKENS - 1, ..ChargedTokens::default() });
            short.push(1, 1, None);
            assert_eq!(cache.send(&mut short, 1), ChargedTokens { written: MIN_CACHED_TOKENS, ..ChargedTokens::default() });
        }
    }

    proptest! {
        /// One prompt that grows and changes, as in the replay, costs the same as one that is made from scratch for each request.
        #[test]
        fn an_exact_cache_reads_no_less_and_a_prompt_may_grow(
            steps in proptest::collection::vec((0_usize..30, 0_usize..25, 0_u64..3, 0_i64..200_000), 1..40),
        ) {
            let mut blocks: Vec<u64> = Vec::new();
            let (mut api, mut exact) = (SimulatedCache::new(CacheModel::Api, false), SimulatedCache::new(CacheModel::Exact, false));
            let mut anew = exact.clone();
            let mut growing = prompt(&[]);
            let mut now = 0;
            for (keep, more, flavor, gap) in steps {
                let keep = keep.min(blocks.len());
                blocks.truncate(keep);
                growing.truncate(keep + 1);
                for at in 0..more {
                    blocks.push(at as u64 * 3 + flavor);
                    growing.push(at as u64 * 3 + flavor, 100, None);
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
        let prompt = |blocks: u64, run: Option<BlockRun>| {
            let mut prompt = CacheableRequest::default();
            prompt.push(0, 2_000, None);
            prompt.push(1, 100, None);
            (0..blocks).for_each(|block| prompt.push(2 + block, 100, run));
            prompt
        };
        for (run, read) in [(None, 2_000), (Some(BlockRun::Calls), 2_100), (Some(BlockRun::Results), 2_100)] {
            let mut cache = SimulatedCache::new(CacheModel::Api, false);
            cache.send(&mut prompt(0, run), 0);
            assert_eq!(cache.send(&mut prompt(30, run), 1).read, read, "{run:?}");
        }
    }
}
