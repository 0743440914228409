-- `turns.superseded` is -1 for a turn that was rewound: its generation has it, and the conversation does not.
ALTER TABLE ctxbridge.learned ADD COLUMN is_rewound boolean NOT NULL DEFAULT false;
ALTER TABLE ctxbridge.compactions ADD COLUMN is_rewound boolean NOT NULL DEFAULT false;
ALTER TABLE ctxbridge.sessions ADD COLUMN title text;
GRANT INSERT (is_rewound), UPDATE (is_rewound) ON ctxbridge.learned, ctxbridge.compactions TO PUBLIC;
GRANT INSERT (title), UPDATE (title) ON ctxbridge.sessions TO PUBLIC;
