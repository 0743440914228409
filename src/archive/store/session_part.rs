//! The part of a session that a file holds.
//!
//! Stores know it as one text, their column `agent`: nothing for the conversation, a sub-agent's id, and for a file beside the
//! transcript its path with a slash before it. No sub-agent's id can begin with a slash, since it is a part of a file's name.

use serde::{Deserialize, Serialize};

/// The part of a session that a file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "Option<String>", into = "Option<String>")]
pub enum SessionPart {
    /// The conversation.
    #[default]
    Conversation,
    /// The work of the sub-agent with this id.
    Agent(String),
    /// A file in the session's own folder, by its path there: `tool-results/b26.txt`.
    SideFile(String),
    /// The note of a side file that is too large to be kept: an [`OmittedFile`](crate::side_files::OmittedFile) as JSON.
    OmittedFile(String),
}

impl SessionPart {
    /// `true` for a conversation's transcript.
    pub fn is_conversation(&self) -> bool {
        *self == Self::Conversation
    }

    /// `true` for a transcript, whose lines are interpreted; `false` for a file beside one.
    pub fn is_transcript(&self) -> bool {
        matches!(self, Self::Conversation | Self::Agent(_))
    }

    /// The sub-agent's id, if it is one's transcript.
    pub fn agent(&self) -> Option<&str> {
        if let Self::Agent(id) = self { Some(id) } else { None }
    }

    /// The path in the session's own folder, of a side file that is kept.
    pub fn side_file(&self) -> Option<&str> {
        if let Self::SideFile(path) = self { Some(path) } else { None }
    }

    /// The path in the session's own folder, of a side file that is noted and not kept.
    pub fn omitted_file(&self) -> Option<&str> {
        if let Self::OmittedFile(path) = self { Some(path) } else { None }
    }

    /// The text that stores know it as.
    pub fn to_column(&self) -> Option<String> {
        match self {
            Self::Conversation => None,
            Self::Agent(id) => Some(id.clone()),
            Self::SideFile(path) => Some(format!("/{path}")),
            Self::OmittedFile(path) => Some(format!("//{path}")),
        }
    }

    /// Reads the text that stores know it as.
    pub fn from_column(text: Option<String>) -> Self {
        let Some(text) = text else { return Self::Conversation };
        match (text.strip_prefix("//"), text.strip_prefix('/')) {
            (Some(path), _) => Self::OmittedFile(path.to_owned()),
            (None, Some(path)) => Self::SideFile(path.to_owned()),
            (None, None) => Self::Agent(text),
        }
    }
}

impl From<Option<String>> for SessionPart {
    fn from(text: Option<String>) -> Self {
        Self::from_column(text)
    }
}

impl From<SessionPart> for Option<String> {
    fn from(part: SessionPart) -> Self {
        part.to_column()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_comes_back_from_its_column() {
        let path = "tool-results/a.txt".to_owned();
        for (part, column) in [
            (SessionPart::Conversation, None),
            (SessionPart::Agent("a1".to_owned()), Some("a1")),
            (SessionPart::SideFile(path.clone()), Some("/tool-results/a.txt")),
            (SessionPart::OmittedFile(path), Some("//tool-results/a.txt")),
        ] {
            assert_eq!(part.to_column().as_deref(), column);
            assert_eq!(SessionPart::from_column(part.to_column()), part);
        }
    }
}
