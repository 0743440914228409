//! Result of a run: moves that were made, planned, or failed.

/// Totals of one kind of move, made or planned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierMoves {
    /// Sessions; 0 for recompression, where only pieces are counted.
    pub sessions: u64,
    /// Pieces of transcripts that were recompressed.
    pub segments: u64,
    /// Bytes before.
    pub before: u64,
    /// Bytes now; 0 if not known yet.
    pub after: u64,
}

/// Result of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TierReport {
    /// Recompressed.
    pub warm: TierMoves,
    /// Moved to files.
    pub cold: TierMoves,
    /// Brought back from there.
    pub back: TierMoves,
    /// Failed moves, whose data stays in place: the session, if it concerns one, and the reason.
    pub failed: Vec<(Option<String>, String)>,
    /// `true` if the time ran out before the end.
    pub is_cut: bool,
    /// `true` if nothing was done because another process is running.
    pub is_elsewhere: bool,
}
