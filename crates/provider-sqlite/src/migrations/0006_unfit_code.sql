-- Instances whose code did not fit their history go on when other code is registered.
ALTER TABLE instances ADD COLUMN unfit_code TEXT;           -- fingerprint of that code; set only while Suspended because of it

CREATE INDEX instances_unfit ON instances (name, version, unfit_code) WHERE unfit_code IS NOT NULL;
