WITH n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 120)
INSERT INTO compactions SELECT n, (n - 1) % 60 + 1, n * 1000, 'auto', n, NULL, 0, NULL, (n - 1) % 60 + 1, n, 7, 8, 9,
    'first ' || n, 'last ' || n, '["topic"]', 0 FROM n;
INSERT INTO notes VALUES ('last_optimize_ms', '12'), ('other', 'x');
WITH n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 30)
INSERT INTO decays SELECT n, n / 64.0 FROM n;
WITH n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 200)
INSERT INTO learnings SELECT n, randomblob(8), 'decision', '/work/1', 'sentence ' || n || hex(zeroblob(n)), 0.5, NULL FROM n;
UPDATE learnings SET superseded_by = id + 1 WHERE id % 9 = 0;
WITH n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 400)
INSERT INTO learned SELECT (n - 1) % 200 + 1, randomblob(16), n % 60 + 1, n, 'before', 'after', NULL, '[]', 0 FROM n;
WITH n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 300)
INSERT INTO fixes SELECT n % 60 + 1, randomblob(16), 'Bash', 'cargo test ' || n, hex(zeroblob(iif(n % 50 = 0, 4000, 50))), '["a"]', n, n + 1 FROM n;
WITH n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 500)
INSERT INTO changed_files SELECT n % 60 + 1, randomblob(16), '["a.rs"]' FROM n;
WITH n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 80)
INSERT INTO learning_progress SELECT n, 0, n, 'patterns', '{}' FROM n;
WITH n (n) AS (SELECT 5001 UNION ALL SELECT n + 1 FROM n WHERE n < 5400)
INSERT INTO kept SELECT randomblob(16), 1, n FROM n;
WITH n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 40)
INSERT INTO cold_files SELECT n, n, '/cold', n || '.zst', 100000, 5 FROM n;
WITH n (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 799)
INSERT INTO cold SELECT (n / 40) * 7 + 1, n % 40 + 1, (n / 40) * 300, 300 FROM n;
WITH n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 60)
INSERT INTO imported SELECT n, 'claude-flow', 'id ' || n, n, 'model', 384, randomblob(1536) FROM n;
WITH n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 100)
INSERT INTO folders SELECT '/work/' || n, 0, '["abc"]', 'remote', NULL, n FROM n;
