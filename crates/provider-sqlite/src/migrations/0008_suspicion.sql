-- Instances that take their workers down are suspended.
ALTER TABLE instances ADD COLUMN suspicion INTEGER NOT NULL DEFAULT 0;  -- what speaks against it since it last got on
ALTER TABLE instances ADD COLUMN on_trial INTEGER NOT NULL DEFAULT 0;   -- its owner tries it: 1 with others, 2 alone
