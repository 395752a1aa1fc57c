-- When somebody uploaded an object, or asked whether it is here, last.
ALTER TABLE objects ADD COLUMN touched_at timestamptz NOT NULL DEFAULT now();

-- Which objects a task's files are. A bundle that no job names goes, and these rows with it.
CREATE TABLE bundle_objects (
    bundle      bytea NOT NULL REFERENCES bundles (bundle) ON DELETE CASCADE,
    hash        bytea NOT NULL REFERENCES objects (hash),
    PRIMARY KEY (bundle, hash)
);
CREATE INDEX bundle_objects_by_hash ON bundle_objects (hash);
CREATE INDEX jobs_by_bundle ON jobs (bundle);

-- Which objects the records of a segment name.
CREATE TABLE segment_objects (
    segment     bigint NOT NULL,
    hash        bytea NOT NULL REFERENCES objects (hash),
    PRIMARY KEY (segment, hash)
);
CREATE INDEX segment_objects_by_hash ON segment_objects (hash);

-- Bytes that may be in the object store without an object of their name: uploads under way, and what is on its way out.
CREATE TABLE strays (
    hash        bytea PRIMARY KEY CHECK (octet_length(hash) = 32),
    since       timestamptz NOT NULL
);
CREATE INDEX strays_by_age ON strays (since);

-- What was there before. Of a line, all that looks like a name and is one: too much rather than too little.
INSERT INTO bundle_objects (bundle, hash)
    SELECT DISTINCT bundle, objects.hash FROM bundles, jsonb_each_text(body -> 'files') AS file (path, name)
    JOIN objects ON encode(objects.hash, 'hex') = name;
INSERT INTO segment_objects (segment, hash)
    SELECT DISTINCT segment, objects.hash FROM lines, regexp_matches(text, '[0-9a-f]{64}', 'g') AS found (names)
    JOIN objects ON encode(objects.hash, 'hex') = names[1];
