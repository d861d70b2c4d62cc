-- Tasks that are due at the same moment are taken in the order in which they were scheduled, as those of a wide fan-out are.
DROP INDEX {schema}.tasks_due;
CREATE INDEX tasks_due ON {schema}.tasks (queue, name, priority DESC, due_at, instance_key, event_id) WHERE owner IS NULL;
