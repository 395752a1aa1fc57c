-- Which workers have said that a job failed, each once: a worker that fails at everything is one voice.
ALTER TABLE jobs ADD COLUMN failed_by text[] NOT NULL DEFAULT '{}';

-- What leaderboards are made of: every latency of a result that stands, as its record says it. All of it can be made again
-- from the ledger.
CREATE TABLE standings (
    task         text NOT NULL,
    task_version bigint NOT NULL,
    -- The task file: two tasks may have one name.
    task_hash    bytea NOT NULL,
    shape        text NOT NULL,
    kind         text NOT NULL CHECK (kind IN ('measured', 'predicted')),
    device       text NOT NULL,
    latency      double precision NOT NULL,
    unit         text NOT NULL,
    candidate    text NOT NULL,
    bundle       bytea NOT NULL,
    verdict      text NOT NULL,
    record       bytea NOT NULL,
    job          bigint NOT NULL,
    made_at      timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX standings_best ON standings (task, task_version, task_hash, shape, kind, device, latency);
CREATE INDEX standings_by_job ON standings (job);

-- Which leaderboards there are, so that nobody has to look through all standings for them.
CREATE TABLE boards (
    task         text NOT NULL,
    task_version bigint NOT NULL,
    task_hash    bytea NOT NULL,
    shape        text NOT NULL,
    kind         text NOT NULL,
    device       text NOT NULL,
    made_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (task, task_version, task_hash, shape, kind, device)
);

CREATE INDEX results_by_age ON results (accepted_at);
CREATE INDEX results_by_segment ON results (segment);
CREATE INDEX results_by_verdict ON results (verdict, accepted_at);
