-- Who went through some of the stages, and failed none of them, has a result and no verdict.
ALTER TABLE results ALTER COLUMN verdict DROP NOT NULL;
