//! Phases, trend, report, gate: the rules, which take values and return values.

use ctxbridge::autopilot::{
    GateDecision, Observation, Phase, Point, Trend, Trigger, WindowReading, WindowState, chart, gate, report, report_of,
    should_report, sparkline, tokens_text,
};
use ctxbridge::config::{AutopilotSettings, Gate, HookSettings, NotifyLevel};
use proptest::prelude::*;

const WINDOW: u64 = 200_000;

fn seen(tokens: u64, turns: u64) -> WindowReading {
    WindowReading { tokens, window: WINDOW, turns, at_ms: 1_000 * turns as i64 }
}

/// A state that has seen these tokens, a turn each.
fn after(tokens: &[u64]) -> WindowState {
    let mut state = WindowState::new("s");
    for (turn, tokens) in (1..).zip(tokens) {
        state.observe(seen(*tokens, turn), &AutopilotSettings::default());
    }
    state
}

#[test]
fn the_report_has_the_form_of_the_design() {
    let config = AutopilotSettings::default();
    let mut state = WindowState::new("s");
    let first = state.observe(seen(48_800, 53), &config);
    insta::assert_snapshot!(report(&first), @"[ContextAutopilot] [=====---------------] 24.4% context used (~48.8K/200.0K tokens, 53 turns) Status: OK");
    let second = state.observe(seen(140_000, 56), &config);
    insta::assert_snapshot!(report(&second), @"[ContextAutopilot] [==============------] 70.0% context used (~140.0K/200.0K tokens, 56 turns) Status: WARNING | +30.4K tokens a turn, ~1 turn left");
    assert_eq!(report_of(&state, &config), report(&second));
    let third = state.observe(seen(230_000, 57), &config);
    insta::assert_snapshot!(report(&third), @"[ContextAutopilot] [====================] 115.0% context used (~230.0K/200.0K tokens, 57 turns) Status: OPTIMIZING | +45.3K tokens a turn, ~0 turns left");
    let compacted = state.observe(seen(900, 58), &config);
    insta::assert_snapshot!(report(&compacted), @"[ContextAutopilot] [--------------------] 0.4% context used (~900/200.0K tokens, 58 turns) Status: OK");
    let pruned = state.observe(seen(700, 59), &config);
    insta::assert_snapshot!(report(&pruned), @"[ContextAutopilot] [--------------------] 0.4% context used (~700/200.0K tokens, 59 turns) Status: OK | -200 tokens a turn");
    let one = WindowState::new("t").observe(WindowReading { window: 1_000_000, ..seen(999_950, 1) }, &config);
    insta::assert_snapshot!(report(&one), @"[ContextAutopilot] [====================] 100.0% context used (~1.0M/1.0M tokens, 1 turn) Status: OPTIMIZING");
}

#[test]
fn phases_begin_at_their_thresholds() {
    let config = AutopilotSettings::default();
    let at = |share| Phase::at(share, &config);
    assert_eq!([at(0.0), at(0.699_999), at(0.70), at(0.849_999), at(0.85), at(7.0)], {
        use Phase::{Ok, Optimize, Warn};
        [Ok, Ok, Warn, Warn, Optimize, Optimize]
    });
}

#[test]
fn it_speaks_as_often_as_it_was_told_to() {
    // Of these five prompts: one below, the change, one more above, optimize, and back after a compaction.
    let tokens = [100_000, 145_000, 150_000, 180_000, 40_000];
    let spoken = |say| {
        let config = AutopilotSettings { notify: say, ..AutopilotSettings::default() };
        let mut state = WindowState::new("s");
        let said = (1..).zip(tokens).map(|(turn, tokens)| should_report(&config, &state.observe(seen(tokens, turn), &config)));
        said.map(u8::from).collect::<Vec<_>>()
    };
    assert_eq!(spoken(NotifyLevel::Off), [0, 0, 0, 0, 0]);
    assert_eq!(spoken(NotifyLevel::Change), [0, 1, 0, 1, 1]);
    assert_eq!(spoken(NotifyLevel::Warn), [0, 1, 1, 1, 1]);
    assert_eq!(spoken(NotifyLevel::Always), [1, 1, 1, 1, 1]);
    let off = AutopilotSettings { enabled: false, notify: NotifyLevel::Always, ..AutopilotSettings::default() };
    assert!(!should_report(&off, &WindowState::new("s").observe(seen(190_000, 1), &off)));
}

#[test]
fn the_state_has_the_names_of_the_design() {
    let mut state = after(&[150_000]);
    state.record_optimize_run();
    insta::assert_snapshot!(serde_json::to_string(&state).unwrap(), @r#"{"sessionId":"s","lastTokenEstimate":150000,"lastPercentage":0.75,"pruneCount":1,"warningIssued":true,"lastCheck":1000,"history":[{"ts":1000,"tokens":150000,"pct":0.75,"turns":1}],"lastWindow":200000}"#);
    state.window = Some(1_000_000);
    state.record_block(5);
    insta::assert_snapshot!(serde_json::to_string(&state).unwrap(), @r#"{"sessionId":"s","lastTokenEstimate":150000,"lastPercentage":0.75,"pruneCount":1,"warningIssued":true,"lastCheck":1000,"history":[{"ts":1000,"tokens":150000,"pct":0.75,"turns":1}],"window":1000000,"lastWindow":200000,"blockedAt":5,"blockedTokens":150000}"#);
}

#[test]
fn another_hook_of_the_same_turn_adds_no_measurement() {
    let mut state = after(&[10_000, 20_000]);
    state.observe(WindowReading { at_ms: 9_000, ..seen(20_000, 2) }, &AutopilotSettings::default());
    assert_eq!(
        state.history.iter().map(|point| (point.ts, point.tokens)).collect::<Vec<_>>(),
        [(1_000, 10_000), (9_000, 20_000)]
    );
}

#[test]
fn the_trend_starts_anew_after_a_compaction() {
    let trend = |tokens: &[u64]| Trend::of(&after(tokens).history, WINDOW);
    assert_eq!(trend(&[10_000]), None);
    assert_eq!(trend(&[10_000, 30_000]), Some(Trend { tokens_per_turn: 20_000.0, turns_left: Some(8) }));
    // Nothing is known of the time since.
    assert_eq!(trend(&[10_000, 160_000, 20_000]), None);
    assert_eq!(trend(&[10_000, 160_000, 20_000, 30_000]), Some(Trend { tokens_per_turn: 10_000.0, turns_left: Some(17) }));
    // A little less is pruning, not compaction.
    assert_eq!(trend(&[100_000, 90_000]), Some(Trend { tokens_per_turn: -10_000.0, turns_left: None }));
    assert_eq!(trend(&[190_000, 210_000]), Some(Trend { tokens_per_turn: 20_000.0, turns_left: Some(0) }));
}

#[test]
fn the_trend_bears_clocks_and_turns_that_go_back() {
    let point = |ts, tokens, turns| Point { ts, tokens, pct: 0.0, turns };
    let growth = Some(Trend { tokens_per_turn: 1_000.0, turns_left: Some(188) });
    assert_eq!(Trend::of(&[point(9_000, 11_000, 1), point(-5, 12_000, 2)], WINDOW), growth);
    // Rewound: what was before is another conversation.
    let rewound = [point(1, 11_000, 7), point(2, 11_000, 1), point(3, 12_000, 2)];
    assert_eq!(Trend::of(&rewound, WINDOW), growth);
    // One long turn: its tokens are of no turn that has ended.
    assert_eq!(Trend::of(&[point(1, 11_000, 1), point(2, 90_000, 1)], WINDOW), None);
    assert_eq!(Trend::of(&[], WINDOW), None);
}

/// A window that is full to a share of it.
fn full(share: f64) -> Observation {
    let phase = Phase::at(share, &AutopilotSettings::default());
    let tokens = (share * WINDOW as f64) as u64;
    Observation { phase, before: phase, tokens, window: WINDOW, share, turns: 1, trend: None }
}

#[test]
fn the_gate_never_locks_anybody_in() {
    let block = HookSettings { gate: Gate::BlockAuto, ..HookSettings::default() };
    let decide = |config: &HookSettings, trigger, share: Option<f64>, state: &WindowState| {
        gate(config, trigger, share.map(full).as_ref(), state) != GateDecision::Allow
    };
    let mut state = WindowState::new("s");
    assert!(decide(&block, Trigger::Auto, Some(0.8), &state));
    assert!(!decide(&HookSettings::default(), Trigger::Auto, Some(0.8), &state), "off by default");
    assert!(!decide(&block, Trigger::Manual, Some(0.8), &state), "a manual one");
    assert!(!decide(&block, Trigger::Auto, Some(0.95), &state), "too full");
    // 200,000 - 23,000 - 2,000.
    assert!(decide(&block, Trigger::Auto, Some(0.874), &state) && !decide(&block, Trigger::Auto, Some(0.875), &state));
    let growing = Observation { trend: Some(Trend { tokens_per_turn: 20_000.0, turns_left: None }), ..full(0.8) };
    assert_eq!(gate(&block, Trigger::Auto, Some(&growing), &state), GateDecision::Allow, "one more turn would not fit");
    assert!(!decide(&block, Trigger::Auto, None, &state), "unknown");
    assert!(!decide(&block, Trigger::Auto, Some(f64::NAN), &state), "no number");
    state.record_block(1);
    assert!(!decide(&block, Trigger::Auto, Some(0.8), &state), "the second in a row");
    state.clear_block_if_answered(state.last_token_estimate);
    assert!(!decide(&block, Trigger::Auto, Some(0.8), &state), "the client did not answer since");
    state.clear_block_if_answered(state.last_token_estimate + 1);
    assert!(decide(&block, Trigger::Auto, Some(0.8), &state));
    assert_eq!(Trigger::named("auto").zip(Trigger::named("manual")), Some((Trigger::Auto, Trigger::Manual)));
    assert_eq!(Trigger::named("else"), None);
    let GateDecision::Block { reason } = gate(&block, Trigger::Auto, Some(&full(0.8)), &state) else { panic!("it blocks") };
    insta::assert_snapshot!(reason, @"ctxbridge held back an automatic compaction at 80.0% of the window (hooks.gate is block-auto); /compact compacts");
}

#[test]
fn figures_are_for_people() {
    let texts = [0, 999, 1_000, 48_800, 999_949, 999_950, 1_000_000, 12_345_678].map(tokens_text);
    assert_eq!(texts, ["0", "999", "1.0K", "48.8K", "999.9K", "1.0M", "1.0M", "12.3M"]);
    assert_eq!(sparkline([0.0, 0.1, 0.125, 0.126, 0.5, 0.99, 1.0, 9.0, f64::NAN]), "▁▁▁▂▄███▁");
}

fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

#[test]
fn the_chart_shows_a_session() {
    let config = AutopilotSettings::default();
    let tokens: Vec<u64> = (1..=17).map(|turn| turn * 10_500).chain([30_000, 42_000, 61_000]).collect();
    let history = after(&tokens).history;
    insta::assert_snapshot!(plain(&chart(&history, &config, 80)), @"
    100% ┤                                                ▂▂▂
     85% ┤┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄▃▃▃▆▆▆███┄┄┄┄┄┄┄┄┄ optimize
     70% ┤┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄▁▁▁▄▄▄████████████┄┄┄┄┄┄┄┄┄ warn
         ┤                           ▂▂▂▅▅▅██████████████████
         ┤                     ▃▃▃▇▇▇████████████████████████
         ┤            ▁▁▁▅▅▅█████████████████████████████████      ▄▄▄
         ┤      ▃▃▃▆▆▆███████████████████████████████████████▂▂▂▆▆▆███
      0% ┤▄▄▄▇▇▇██████████████████████████████████████████████████████
          turns 1 to 20
    ");
    // Where there is no room, the newest are shown.
    insta::assert_snapshot!(plain(&chart(&history, &config, 20)), @"
    100% ┤          ▂
     85% ┤┄┄┄┄┄┄┄┄▃▆█┄┄┄
     70% ┤┄┄┄┄┄▁▄████┄┄┄
         ┤   ▂▅██████
         ┤ ▃▇████████
         ┤███████████  ▄
         ┤███████████▂▆█
      0% ┤██████████████
          turns 7 to 20
    ");
    insta::assert_snapshot!(chart(&history[15..18], &config, 40).replace('\u{1b}', "ESC"), @"
    ESC[2m100% ┤ESC[0m   ESC[31m▂▂▂ESC[0m
    ESC[2m 85% ┤ESC[0mESC[33m▆▆▆ESC[0mESC[31m███┄┄┄ optimizeESC[0m
    ESC[2m 70% ┤ESC[0mESC[33m███ESC[0mESC[31m███ESC[0mESC[33m┄┄┄ warnESC[0m
    ESC[2m     ┤ESC[0mESC[33m███ESC[0mESC[31m███ESC[0m
    ESC[2m     ┤ESC[0mESC[33m███ESC[0mESC[31m███ESC[0m
    ESC[2m     ┤ESC[0mESC[33m███ESC[0mESC[31m███ESC[0m
    ESC[2m     ┤ESC[0mESC[33m███ESC[0mESC[31m███ESC[0mESC[32m▂▂▂ESC[0m
    ESC[2m  0% ┤ESC[0mESC[33m███ESC[0mESC[31m███ESC[0mESC[32m███ESC[0m
    ESC[2m      turns 16 to 18ESC[0m
    ");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// What holds whatever is observed: nothing overflows, and what is remembered is bounded and can be read again.
    #[test]
    fn any_measurements_are_borne(
        seen in proptest::collection::vec((any::<u64>(), any::<u64>(), any::<u64>(), any::<i64>()), 1..80),
        warn in 0.01..1.0_f64, gap in 0.0..0.5_f64, width in 0_usize..200,
    ) {
        let config = AutopilotSettings { warn, critical: (warn + gap).min(1.0), ..AutopilotSettings::default() };
        let mut state = WindowState::new("s");
        for (tokens, window, turns, at_ms) in seen {
            let before = Phase::at(state.last_percentage, &config);
            let observation = state.observe(WindowReading { tokens, window, turns, at_ms }, &config);
            prop_assert_eq!(observation.before, before);
            prop_assert_eq!(state.warning_issued, observation.phase >= Phase::Warn);
            prop_assert!(observation.share.is_finite() && observation.share >= 0.0);
            prop_assert!(state.history.len() <= WindowState::MAX_HISTORY);
            prop_assert_eq!(state.history.last().map(|point| (point.tokens, point.turns)), Some((tokens, turns)));
            let line = report(&observation);
            prop_assert!(line.starts_with("[ContextAutopilot] [") && line.lines().count() == 1, "{}", line);
        }
        let read: WindowState = serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap();
        prop_assert_eq!(&read, &state);
        let chart = plain(&chart(&state.history, &config, width));
        prop_assert_eq!(chart.lines().count(), 9);
        prop_assert!(chart.lines().take(8).all(|line| line.chars().count() <= width.max(7)), "{}", chart);
    }

    /// Steady growth is told as it is, and at that rate the window is full when it says so.
    #[test]
    fn steady_growth_is_found(start in 1_000_u64..50_000, growth in 1_u64..10_000, turns in 2_u64..60) {
        let history: Vec<Point> =
            (0..turns).map(|turn| Point { ts: 0, tokens: start + growth * turn, pct: 0.0, turns: turn }).collect();
        let trend = Trend::of(&history, 10_000_000).unwrap();
        prop_assert!((trend.tokens_per_turn - growth as f64).abs() < 1e-6);
        let (left, tokens) = (trend.turns_left.unwrap(), history.last().unwrap().tokens);
        prop_assert!(tokens + growth * left <= 10_000_000 && tokens + growth * (left + 1) > 10_000_000);
    }

    /// What lies before a compaction does not matter.
    #[test]
    fn a_compaction_makes_a_new_start(before in proptest::collection::vec(50_000_u64..200_000, 1..20),
                                      since in proptest::collection::vec(10_000_u64..13_000, 1..9)) {
        let with = after(&[before.as_slice(), since.as_slice()].concat());
        let alone = after(&since);
        prop_assert_eq!(Trend::of(&with.history, WINDOW), Trend::of(&alone.history, WINDOW));
    }

    /// Higher is never drawn lower, and a fuller window is never in a lower phase.
    #[test]
    fn more_is_never_less(one in 0.0..1.5_f64, more in 0.0..1.5_f64) {
        let level = |share: f64| sparkline([share]).chars().next().unwrap() as u32;
        prop_assert!(level(one) <= level(one + more));
        let config = AutopilotSettings::default();
        prop_assert!(Phase::at(one, &config) <= Phase::at(one + more, &config));
    }

    /// Only what is automatic, below the limit, and the first since a prompt is ever blocked.
    #[test]
    fn the_gate_is_narrow(share in proptest::option::of(any::<f64>()), auto in any::<bool>(), on in any::<bool>(), blocked in any::<bool>()) {
        let config = HookSettings { gate: if on { Gate::BlockAuto } else { Gate::Off }, ..HookSettings::default() };
        let mut state = WindowState::new("s");
        if blocked {
            state.record_block(0);
        }
        let seen = share.map(full);
        let decision = gate(&config, if auto { Trigger::Auto } else { Trigger::Manual }, seen.as_ref(), &state);
        let expected = on && auto && !blocked && seen.is_some_and(|seen| seen.share < 0.95 && seen.tokens < 175_000);
        prop_assert_eq!(decision != GateDecision::Allow, expected);
    }
}
