
-- The views by which a transaction of the user's requests starts and messages: an insertion into a view runs its
-- trigger in that transaction. See docs/internals/transactions.md. The functions are those that every library's SQLite
-- has from 3.38 on. Before 3.47, RAISE takes no text but a fixed one, so no error names a value.

CREATE VIEW perdure_start (id, name, input, options) AS SELECT NULL, NULL, NULL, NULL WHERE 0;
CREATE VIEW perdure_raise_event (id, name, data) AS SELECT NULL, NULL, NULL WHERE 0;
CREATE VIEW perdure_enqueue_event (id, queue, data) AS SELECT NULL, NULL, NULL WHERE 0;
CREATE VIEW perdure_cancel (id, reason) AS SELECT NULL, NULL WHERE 0;

-- The views of the client, which hands over values as they are stored.
CREATE VIEW perdure_start_encoded (id, name, input, options, trace) AS SELECT NULL, NULL, NULL, NULL, NULL WHERE 0;
CREATE VIEW perdure_message_encoded (kind, id, name, data, unread_max) AS SELECT NULL, NULL, NULL, NULL, NULL WHERE 0;

-- Values that begin with `~` are beyond JSON, and those that begin with `#` were stored through a codec.
CREATE VIEW perdure_status (id, name, version, status, execution_id, output, error, custom_status,
  custom_status_version, priority, tags, parent_id, created_at, updated_at, completed_at) AS
SELECT i.id, i.name, i.version, i.status, i.execution, CASE i.status WHEN 'Completed' THEN h.payload END,
  CASE i.status WHEN 'Completed' THEN NULL ELSE coalesce(h.payload, i.report) END, i.custom_status,
  i.custom_status_version, i.priority, coalesce(i.tags, '{}'), i.parent_id, i.created_at, i.updated_at, i.completed_at
FROM instances i LEFT JOIN history h ON i.completed_at IS NOT NULL
  AND h.instance_key = i.key AND h.execution = i.execution AND h.event_id = i.next_event_id - 1;

CREATE TRIGGER perdure_start_insert INSTEAD OF INSERT ON perdure_start BEGIN
  SELECT RAISE(ABORT, 'perdure: the input must be JSON text')
  WHERE NEW.input IS NOT NULL AND (typeof(NEW.input) = 'blob' OR NOT json_valid(NEW.input));
  SELECT RAISE(ABORT, 'perdure: the input takes more than 2097152 bytes (limits.payloadBytes)')
  WHERE length(CAST(json(NEW.input) AS BLOB)) > 2097152;
  INSERT INTO perdure_start_encoded (id, name, input, options)
  VALUES (NEW.id, NEW.name, json(NEW.input), NEW.options);
END;

CREATE TRIGGER perdure_start_encoded_insert INSTEAD OF INSERT ON perdure_start_encoded BEGIN
  SELECT RAISE(ABORT, 'perdure: the instance id must be a text of 1 to 256 characters')
  WHERE typeof(NEW.id) <> 'text' OR length(NEW.id) NOT BETWEEN 1 AND 256 OR instr(NEW.id, char(0));
  SELECT RAISE(ABORT, 'perdure: the orchestration name must be a text of 1 to 256 characters')
  WHERE typeof(NEW.name) <> 'text' OR length(NEW.name) NOT BETWEEN 1 AND 256 OR instr(NEW.name, char(0));
  SELECT RAISE(ABORT, 'perdure: the options must be a JSON object')
  WHERE NEW.options IS NOT NULL AND NOT coalesce(
    CASE WHEN typeof(NEW.options) = 'text' AND json_valid(NEW.options) THEN json_type(NEW.options) = 'object' END, 0);
  SELECT RAISE(ABORT, 'perdure: an option is unknown; the options are version, priority, tags, onConflict')
  WHERE EXISTS (
    SELECT 1 FROM json_each(NEW.options) o WHERE o.key NOT IN ('version', 'priority', 'tags', 'onConflict'));
  SELECT RAISE(ABORT, 'perdure: the option version must be a string of 1 to 256 characters')
  WHERE json_type(NEW.options, '$.version') NOT IN ('text', 'null')
    OR length(json_extract(NEW.options, '$.version')) NOT BETWEEN 1 AND 256;
  SELECT RAISE(ABORT, 'perdure: the option priority must be a whole number from -2147483648 to 2147483647')
  WHERE json_type(NEW.options, '$.priority') NOT IN ('integer', 'null')
    OR json_extract(NEW.options, '$.priority') NOT BETWEEN -2147483648 AND 2147483647;
  SELECT RAISE(ABORT, 'perdure: the option tags must be an object of strings')
  WHERE json_type(NEW.options, '$.tags') NOT IN ('object', 'null') OR json_type(NEW.options, '$.tags') = 'object'
    AND EXISTS (SELECT 1 FROM json_each(NEW.options, '$.tags') t WHERE t.type <> 'text');
  SELECT RAISE(ABORT, 'perdure: the option onConflict must be error or return; only a client replaces an instance')
  WHERE coalesce(json_extract(NEW.options, '$.onConflict'), 'error') NOT IN ('error', 'return');
  SELECT RAISE(ABORT, 'perdure: an instance with this id exists already')
  WHERE coalesce(json_extract(NEW.options, '$.onConflict'), 'error') = 'error'
    AND EXISTS (SELECT 1 FROM instances i WHERE i.id = NEW.id);
  INSERT INTO instances (id, name, version, execution, status, epoch, next_event_id, turns, wake_at,
    custom_status_version, priority, tags, created_at, updated_at)
  SELECT NEW.id, NEW.name, coalesce(json_extract(NEW.options, '$.version'), ''), 1, 'Pending', 0, 2, 0, now.ms, 0,
    coalesce(json_extract(NEW.options, '$.priority'), 0), json_extract(NEW.options, '$.tags'), now.ms, now.ms
  FROM (SELECT CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) AS ms) now
  WHERE NOT EXISTS (SELECT 1 FROM instances i WHERE i.id = NEW.id);
  -- The seed is a number of 64 bits without a sign, and the incarnation the same in hexadecimal digits.
  INSERT INTO history (instance_key, execution, event_id, time, kind, name, payload, meta)
  SELECT i.key, 1, 1, i.created_at, 'ExecutionStarted', i.name, NEW.input,
    '{"version":' || json_quote(i.version) || ',"seed":"' || printf('%u', random()) || '","incarnation":"'
    || lower(hex(randomblob(8))) || '"'
    || CASE WHEN NEW.trace IS NULL THEN '' ELSE ',"trace":' || json_quote(NEW.trace) END || '}'
  FROM instances i
  WHERE i.id = NEW.id AND NOT EXISTS (SELECT 1 FROM history h WHERE h.instance_key = i.key);
END;

CREATE TRIGGER perdure_raise_event_insert INSTEAD OF INSERT ON perdure_raise_event BEGIN
  SELECT RAISE(ABORT, 'perdure: the data must be JSON text')
  WHERE NEW.data IS NOT NULL AND (typeof(NEW.data) = 'blob' OR NOT json_valid(NEW.data));
  SELECT RAISE(ABORT, 'perdure: the data takes more than 2097152 bytes (limits.payloadBytes)')
  WHERE length(CAST(json(NEW.data) AS BLOB)) > 2097152;
  INSERT INTO perdure_message_encoded (kind, id, name, data, unread_max)
  VALUES ('Event', NEW.id, NEW.name, json(NEW.data), 1000000);
END;

CREATE TRIGGER perdure_enqueue_event_insert INSTEAD OF INSERT ON perdure_enqueue_event BEGIN
  SELECT RAISE(ABORT, 'perdure: the data must be JSON text')
  WHERE NEW.data IS NOT NULL AND (typeof(NEW.data) = 'blob' OR NOT json_valid(NEW.data));
  SELECT RAISE(ABORT, 'perdure: the data takes more than 2097152 bytes (limits.payloadBytes)')
  WHERE length(CAST(json(NEW.data) AS BLOB)) > 2097152;
  INSERT INTO perdure_message_encoded (kind, id, name, data, unread_max)
  VALUES ('Queue', NEW.id, NEW.queue, json(NEW.data), 1000000);
END;

CREATE TRIGGER perdure_cancel_insert INSTEAD OF INSERT ON perdure_cancel BEGIN
  SELECT RAISE(ABORT, 'perdure: the reason must be a text of at most 2097152 bytes')
  WHERE typeof(NEW.reason) NOT IN ('text', 'null') OR length(CAST(json_quote(NEW.reason) AS BLOB)) > 2097152;
  INSERT INTO perdure_message_encoded (kind, id, data)
  VALUES ('Cancel', NEW.id, CASE WHEN NEW.reason IS NOT NULL THEN json_quote(NEW.reason) END);
END;

CREATE TRIGGER perdure_message_encoded_insert INSTEAD OF INSERT ON perdure_message_encoded BEGIN
  SELECT RAISE(ABORT, 'perdure: the instance id must be a text of 1 to 256 characters')
  WHERE typeof(NEW.id) <> 'text' OR length(NEW.id) NOT BETWEEN 1 AND 256 OR instr(NEW.id, char(0));
  SELECT RAISE(ABORT, 'perdure: the name of an event or a queue must be a text of 1 to 256 characters')
  WHERE NEW.kind <> 'Cancel'
    AND (typeof(NEW.name) <> 'text' OR length(NEW.name) NOT BETWEEN 1 AND 256 OR instr(NEW.name, char(0)));
  SELECT RAISE(ABORT, 'perdure: there is no instance with this id')
  WHERE NOT EXISTS (SELECT 1 FROM instances i WHERE i.id = NEW.id);
  SELECT RAISE(ABORT, 'perdure: the instance has ended and takes no more messages')
  FROM instances i WHERE i.id = NEW.id AND NEW.kind <> 'Cancel'
    AND i.status IN ('Completed', 'Failed', 'Cancelled', 'Terminated');
  SELECT RAISE(ABORT, 'perdure: the instance has reached its limit of unread messages (limits.mailboxMessages)')
  FROM instances i WHERE i.id = NEW.id AND NEW.kind <> 'Cancel' AND i.unread >= NEW.unread_max;
  SELECT RAISE(ABORT, 'perdure: the instance is suspended; client.cancelInstance can cancel it')
  FROM instances i WHERE i.id = NEW.id AND NEW.kind = 'Cancel' AND i.status = 'Suspended';
  SELECT RAISE(ABORT, 'perdure: the instance waits for its start; client.cancelInstance can cancel it')
  FROM instances i WHERE i.id = NEW.id AND NEW.kind = 'Cancel' AND i.status = 'Pending' AND i.epoch = 0
    AND i.owner IS NULL
    AND coalesce(i.wake_at > CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER), 1);
  INSERT INTO messages (instance_key, kind, name, payload, time)
  SELECT i.key, NEW.kind, NEW.name, NEW.data, CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)
  FROM instances i WHERE i.id = NEW.id AND i.status NOT IN ('Completed', 'Failed', 'Cancelled', 'Terminated');
  -- An instance that is due already keeps its place in the order.
  -- One that no worker has acquired yet is due at its own time.
  UPDATE instances SET unread = unread + 1, wake_at = CASE WHEN owner IS NULL AND epoch > 0 AND status <> 'Suspended'
    THEN min(coalesce(wake_at, 9223372036854775807), CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER))
    ELSE wake_at END
  WHERE id = NEW.id AND status NOT IN ('Completed', 'Failed', 'Cancelled', 'Terminated');
END;
