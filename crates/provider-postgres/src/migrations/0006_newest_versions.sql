ALTER TABLE {schema}.workers ADD COLUMN newest text;    -- the newest version of each orchestration that the worker has, as JSON
