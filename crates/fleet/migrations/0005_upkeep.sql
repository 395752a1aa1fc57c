-- Tokens end by themselves; those made before this stay until they are revoked.
ALTER TABLE tokens ADD COLUMN expires_at timestamptz;

-- Which task a run is about, as its file says it.
ALTER TABLE runs ADD COLUMN task_name text;
ALTER TABLE runs ADD COLUMN task_version bigint;

-- When a worker said goodbye; nothing while it works, or where it vanished.
ALTER TABLE workers ADD COLUMN left_at timestamptz;

-- How many leases of a job ended without a word of its worker.
ALTER TABLE jobs ADD COLUMN lost integer NOT NULL DEFAULT 0;

-- Each of them, for people; the sequence counts all that there ever were.
CREATE TABLE lost_leases (
    number      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job         bigint NOT NULL,
    worker      text NOT NULL,
    lost_at     timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX lost_leases_by_age ON lost_leases (lost_at);
