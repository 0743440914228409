//! Threads that do what takes longer than a key may. Of what waits, the newest comes first: the user has gone on.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;

use crate::messages::{Reply, Request};
use crate::source::{Selection, SessionSource, SessionSourceError, TurnSearch};

/// The threads. They end after their current work when this is dropped.
pub(crate) struct Workers {
    to_list: Sender<Request>,
    to_search: Sender<String>,
    replies: Receiver<Reply>,
}

impl Workers {
    /// Starts the threads.
    pub(crate) fn start(source: Box<dyn SessionSource>, search: Box<dyn TurnSearch>) -> Self {
        let (to_list, list_requests) = channel();
        let (to_search, search_requests) = channel();
        let (reply, replies) = channel();
        let list_reply = reply.clone();
        thread::spawn(move || list(source, &list_requests, &list_reply));
        thread::spawn(move || find(search, &search_requests, &reply));
        Self { to_list, to_search, replies }
    }

    /// Hands a request to its thread. Returns `false` if that thread is gone, which is a bug.
    pub(crate) fn send(&self, request: Request) -> bool {
        match request {
            Request::Search(words) => self.to_search.send(words).is_ok(),
            request => self.to_list.send(request).is_ok(),
        }
    }

    /// Returns the next reply that is there.
    pub(crate) fn reply(&self) -> Option<Reply> {
        self.replies.try_recv().ok()
    }
}

/// Work of the listing thread that waits.
#[derive(Default)]
struct Waiting {
    sessions: Option<usize>,
    preview: Option<Selection>,
    counts: Vec<String>,
}

impl Waiting {
    fn add(&mut self, request: Request) {
        match request {
            Request::Sessions(limit) => self.sessions = Some(limit),
            Request::Preview(selection) => self.preview = Some(selection),
            // Taken from the end: reversed, so that they come from top to bottom.
            Request::TurnCounts(sessions) => self.counts.extend(sessions.into_iter().rev()),
            Request::Search(_) => {}
        }
    }

    fn next(&mut self, source: &mut dyn SessionSource) -> Option<Reply> {
        if let Some(limit) = self.sessions.take() {
            return Some(Reply::Sessions(limit, source.sessions(limit).map_err(told)));
        }
        if let Some(selection) = self.preview.take() {
            let text = source.preview(&selection).map_err(told);
            return Some(Reply::Preview(selection, text));
        }
        let session = self.counts.pop()?;
        let turns = source.turn_count(&session).ok();
        Some(Reply::TurnCount(session, turns))
    }
}

fn list(mut source: Box<dyn SessionSource>, requests: &Receiver<Request>, reply: &Sender<Reply>) {
    let mut waiting = Waiting::default();
    loop {
        loop {
            match requests.try_recv() {
                Ok(request) => waiting.add(request),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            }
        }
        match waiting.next(&mut *source) {
            Some(done) => {
                if reply.send(done).is_err() {
                    return;
                }
            }
            None => match requests.recv() {
                Ok(request) => waiting.add(request),
                Err(_) => return,
            },
        }
    }
}

fn find(mut search: Box<dyn TurnSearch>, requests: &Receiver<String>, reply: &Sender<Reply>) {
    let mut is_unprepared = true;
    loop {
        let next = match requests.try_recv() {
            Err(TryRecvError::Empty) if is_unprepared => {
                is_unprepared = search.prepare();
                continue;
            }
            Err(TryRecvError::Empty) => requests.recv().ok(),
            received => received.ok(),
        };
        let Some(words) = next else { return };
        let words = requests.try_iter().last().unwrap_or(words);
        let found = search.search(&words).map_err(told);
        if reply.send(Reply::Found(words, found)).is_err() {
            return;
        }
    }
}

/// An error with its causes, as a sentence.
fn told(error: SessionSourceError) -> String {
    let mut told = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let text = inner.to_string();
        // Many errors name their cause themselves.
        if !told.contains(&text) {
            told += &format!(": {text}");
        }
        cause = inner.source();
    }
    told
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::source::{PickableSession, SearchOutcome};

    struct Source;

    impl SessionSource for Source {
        fn sessions(&mut self, limit: usize) -> Result<Vec<PickableSession>, SessionSourceError> {
            Ok(vec![PickableSession { id: format!("first of {limit}"), ..PickableSession::default() }])
        }

        fn turn_count(&mut self, session: &str) -> Result<u64, SessionSourceError> {
            session.parse().map_err(Into::into)
        }

        fn preview(&mut self, _: &Selection) -> Result<String, SessionSourceError> {
            Err("it is damaged".into())
        }
    }

    impl TurnSearch for Source {
        fn search(&mut self, words: &str) -> Result<SearchOutcome, SessionSourceError> {
            Ok(SearchOutcome { note: Some(words.to_owned()), ..SearchOutcome::default() })
        }
    }

    /// Prepares for ever, and finds how often it did.
    struct Preparing(u32);

    impl TurnSearch for Preparing {
        fn search(&mut self, _: &str) -> Result<SearchOutcome, SessionSourceError> {
            Ok(SearchOutcome { note: Some(self.0.to_string()), ..SearchOutcome::default() })
        }

        fn prepare(&mut self) -> bool {
            self.0 += 1;
            thread::sleep(Duration::from_millis(1));
            true
        }
    }

    #[test]
    fn preparing_goes_on_between_searches_and_holds_none_up() {
        let workers = Workers::start(Box::new(Source), Box::new(Preparing(0)));
        let mut times = Vec::new();
        while times.len() < 3 {
            assert!(workers.send(Request::Search("a".to_owned())));
            let Reply::Found(_, Ok(found)) = workers.replies.recv_timeout(Duration::from_secs(60)).unwrap() else { continue };
            times.extend(found.note.and_then(|note| note.parse::<u32>().ok()).filter(|time| times.last() != Some(time)));
        }
        assert!(times.is_sorted(), "{times:?}");
    }

    #[test]
    fn each_request_gets_its_reply() {
        let workers = Workers::start(Box::new(Source), Box::new(Source));
        let next = || workers.replies.recv_timeout(Duration::from_secs(60)).unwrap();
        assert!(workers.send(Request::Sessions(7)));
        assert!(matches!(next(), Reply::Sessions(7, Ok(sessions)) if sessions[0].id == "first of 7"));
        assert!(workers.send(Request::Preview(Selection::Session("1".to_owned()))));
        assert!(matches!(next(), Reply::Preview(_, Err(error)) if error == "it is damaged"));
        assert!(workers.send(Request::Search("a b".to_owned())));
        assert!(matches!(next(), Reply::Found(words, Ok(found)) if words == "a b" && found.note.as_deref() == Some("a b")));
        assert!(workers.send(Request::TurnCounts(vec!["3".to_owned(), "x".to_owned()])));
        assert!(matches!(next(), Reply::TurnCount(session, Some(3)) if session == "3"));
        assert!(matches!(next(), Reply::TurnCount(session, None) if session == "x"));
    }

    #[test]
    fn the_newest_preview_replaces_those_before_it_and_counts_come_last() {
        let mut waiting = Waiting::default();
        waiting.add(Request::TurnCounts(vec!["1".to_owned(), "2".to_owned()]));
        waiting.add(Request::Preview(Selection::Session("1".to_owned())));
        waiting.add(Request::Preview(Selection::Session("2".to_owned())));
        waiting.add(Request::TurnCounts(vec!["3".to_owned()]));
        let done: Vec<String> = std::iter::from_fn(|| waiting.next(&mut Source))
            .map(|reply| match reply {
                Reply::Preview(Selection::Session(id), _) => format!("preview {id}"),
                Reply::TurnCount(id, _) => format!("count {id}"),
                other => format!("{other:?}"),
            })
            .collect();
        assert_eq!(done, ["preview 2", "count 3", "count 1", "count 2"]);
    }
}
