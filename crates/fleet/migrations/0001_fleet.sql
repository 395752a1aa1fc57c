-- The fleet's truth. Times are the database's own: no machine's clock decides anything.

-- Who may do what. The token itself is not kept, only its hash.
CREATE TABLE tokens (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    hash        bytea NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
    name        text NOT NULL CHECK (length(name) BETWEEN 1 AND 128),
    roles       text[] NOT NULL CHECK (roles <@ ARRAY['submit', 'work', 'read', 'admin']),
    -- How many jobs of this token may be unfinished at a time.
    quota       integer NOT NULL CHECK (quota >= 0),
    made_at     timestamptz NOT NULL DEFAULT now(),
    revoked_at  timestamptz
);

-- What somebody asked for. The name is the asker's own, so that asking twice is asking once.
CREATE TABLE runs (
    run         text PRIMARY KEY CHECK (run ~ '^[0-9a-f]{32}$'),
    number      bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    token       bigint NOT NULL REFERENCES tokens (id),
    -- The hash of what was asked for: the same name with another wish is refused.
    request     bytea NOT NULL,
    task        text NOT NULL,
    made_at     timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX runs_by_age ON runs (made_at);

-- A task with its files: its path, every file with its hash, the secret where one was given. Many jobs share one.
CREATE TABLE bundles (
    bundle      bytea PRIMARY KEY CHECK (octet_length(bundle) = 32),
    body        jsonb NOT NULL
);

CREATE TYPE job_state AS ENUM ('queued', 'leased', 'done', 'failed', 'cancelled');

-- One evaluation. Those whose content is the same are one job, whoever asked.
CREATE TABLE jobs (
    job         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key         bytea NOT NULL CHECK (octet_length(key) = 32),
    -- Whether this is the job that an equal wish is answered with.
    current     boolean NOT NULL DEFAULT true,
    token       bigint NOT NULL REFERENCES tokens (id),
    state       job_state NOT NULL DEFAULT 'queued',
    capability  text NOT NULL CHECK (length(capability) BETWEEN 1 AND 128),
    priority    smallint NOT NULL DEFAULT 0,
    candidate   text NOT NULL,
    bundle      bytea NOT NULL REFERENCES bundles (bundle),
    -- Claims so far, and claims that ended with a word of failure.
    attempts    integer NOT NULL DEFAULT 0,
    failures    integer NOT NULL DEFAULT 0,
    reason      text,
    -- The fence: every claim draws a new number, and only the newest is listened to.
    lease_token bigint,
    lease_until timestamptz,
    worker      text,
    made_at     timestamptz NOT NULL DEFAULT now(),
    ended_at    timestamptz,
    CHECK ((state = 'leased') = (lease_until IS NOT NULL))
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX jobs_by_content ON jobs (key) WHERE current;
-- What a claim walks: nothing but what waits, in the order it is given out.
CREATE INDEX jobs_waiting ON jobs (capability, priority DESC, job) WHERE state = 'queued';
CREATE INDEX jobs_leased ON jobs (capability, lease_until) WHERE state = 'leased';
CREATE INDEX jobs_open ON jobs (token) WHERE state IN ('queued', 'leased');
CREATE INDEX jobs_ended ON jobs (ended_at) WHERE ended_at IS NOT NULL;

CREATE SEQUENCE lease_tokens AS bigint;

-- Which jobs answer a run.
CREATE TABLE run_jobs (
    run         text NOT NULL REFERENCES runs (run) ON DELETE CASCADE,
    place       integer NOT NULL,
    job         bigint NOT NULL REFERENCES jobs (job),
    -- Whether its verdict was there when the run was made.
    known       boolean NOT NULL,
    PRIMARY KEY (run, place)
);
CREATE INDEX run_jobs_by_job ON run_jobs (job);

-- Segments of the ledger: those of accepted results, and those that were imported.
CREATE TABLE segments (
    number      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id          text NOT NULL UNIQUE,
    hash        bytea NOT NULL,
    bytes       bigint NOT NULL,
    lines       integer NOT NULL,
    made_at     timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX segments_by_age ON segments (made_at);

-- Their lines, to the byte; one partition for each stretch of segments, so that old ones are dropped and not deleted.
CREATE TABLE lines (
    segment     bigint NOT NULL,
    line        integer NOT NULL,
    hash        bytea NOT NULL,
    kind        text NOT NULL,
    run         text,
    candidate   text,
    text        text NOT NULL,
    PRIMARY KEY (segment, line)
) PARTITION BY RANGE (segment);
CREATE INDEX lines_by_hash ON lines (hash);
CREATE TABLE lines_rest PARTITION OF lines DEFAULT;

-- One result for each job: the primary key holds it, whatever a program does.
CREATE TABLE results (
    job         bigint PRIMARY KEY,
    lease_token bigint NOT NULL,
    -- The hash of the segment: what a replay is held against.
    content     bytea NOT NULL,
    segment     bigint NOT NULL,
    segment_id  text NOT NULL,
    -- The record of the verdict.
    record      bytea NOT NULL,
    verdict     text NOT NULL,
    reason      text NOT NULL,
    -- Whether an equal wish is answered with it; what a measurement left open is measured again.
    lasting     boolean NOT NULL,
    worker      text NOT NULL,
    accepted_at timestamptz NOT NULL DEFAULT now()
) PARTITION BY RANGE (job);
CREATE TABLE results_rest PARTITION OF results DEFAULT;

CREATE TABLE workers (
    worker      text PRIMARY KEY CHECK (length(worker) BETWEEN 1 AND 128),
    token       bigint NOT NULL REFERENCES tokens (id),
    capabilities text[] NOT NULL,
    version     text NOT NULL,
    first_seen  timestamptz NOT NULL DEFAULT now(),
    last_seen   timestamptz NOT NULL DEFAULT now()
);

-- Objects that were uploaded; their bytes are in the object store.
CREATE TABLE objects (
    hash        bytea PRIMARY KEY CHECK (octet_length(hash) = 32),
    bytes       bigint NOT NULL,
    made_at     timestamptz NOT NULL DEFAULT now()
);
