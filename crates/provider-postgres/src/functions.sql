
-- The functions by which a transaction of the user's requests starts and messages, and the trigger that carries the
-- requests out at the commit. See docs/internals/transactions.md; Q1 to Q5 are its invariants.
--
-- `{channel}` stands for the channel of notifications, which is made of letters, digits and `_`. It quotes the bodies,
-- too: no name of a schema contains it. The placeholders `locked_queues` and `enter_queues` stand for the parts of
-- statements by which the writer of a worker, too, gives new instances their places (queues.rs).

-- Raises the error of a request.
CREATE FUNCTION {schema}.refuse_request(why text, instance text, more text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS ${channel}$
DECLARE
  shown text := replace($2, chr(1) || '1', chr(1));
BEGIN
  CASE $1
    WHEN 'exists' THEN RAISE EXCEPTION USING ERRCODE = 'unique_violation',
      MESSAGE = format('an instance with the id ''%s'' exists already', shown),
      HINT = 'Start it under another id, or with the option {"onConflict": "return"}, which leaves the instance as '
        || 'it is.';
    WHEN 'absent' THEN RAISE EXCEPTION USING ERRCODE = 'no_data_found',
      MESSAGE = format('there is no instance with the id ''%s''', shown),
      HINT = 'Start the instance first, in this transaction or in one that is committed.';
    WHEN 'ended' THEN RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
      MESSAGE = format('instance ''%s'' has ended (%s) and takes no more messages', shown, $3),
      HINT = 'Start another instance for what comes after its end.';
    WHEN 'full' THEN RAISE EXCEPTION USING ERRCODE = 'program_limit_exceeded',
      MESSAGE = format('instance ''%s'' has reached its limit of %s unread messages (limits.mailboxMessages)', shown,
        $3),
      HINT = 'Send again when the instance has read messages, or raise the limit.';
    WHEN 'suspended' THEN RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
      MESSAGE = format('instance ''%s'' is suspended and cannot be cancelled by SQL', shown),
      HINT = 'Call client.cancelInstance, which ends a suspended instance, or resume the instance first.';
    WHEN 'waits' THEN RAISE EXCEPTION USING ERRCODE = 'object_not_in_prerequisite_state',
      MESSAGE = format('instance ''%s'' has not begun, because it waits for its start time or for a slot of its queue, '
        || 'and cannot be cancelled by SQL', shown),
      HINT = 'Call client.cancelInstance, which ends an instance that has not begun.';
    WHEN 'no queue' THEN RAISE EXCEPTION USING ERRCODE = 'undefined_object',
      MESSAGE = format('instance ''%s'' cannot be started: there is no queue ''%s''', shown,
        replace($3, chr(1) || '1', chr(1))),
      HINT = 'Set the limits of the queue first, with client.queues.set, or start the instance without the option '
        || '"queue".';
  END CASE;
END
${channel}$;

-- Refuses an id or a name that the client would refuse. Its length is counted in characters; the client counts UTF-16
-- units, of which a rare character has two.
CREATE FUNCTION {schema}.check_request_name(what text, given text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS ${channel}$
BEGIN
  IF $2 IS NULL OR $2 = '' THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
      MESSAGE = format('the %s must not be %s', $1, CASE WHEN $2 IS NULL THEN 'NULL' ELSE 'empty' END),
      HINT = format('Pass a text of 1 to 256 characters as the %s.', $1);
  ELSIF char_length($2) > 256 THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
      MESSAGE = format('the %s must have at most 256 characters, got %s', $1, char_length($2)),
      HINT = 'Shorten it, or pass the long text in the input or in the data.';
  END IF;
END
${channel}$;

-- Returns the text to store of a value, or refuses one that is over the client's default limit.
CREATE FUNCTION {schema}.check_request_value(what text, given jsonb) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS ${channel}$
DECLARE
  size integer := octet_length($2::text);
BEGIN
  IF size > 2097152 THEN
    RAISE EXCEPTION USING ERRCODE = 'program_limit_exceeded',
      MESSAGE = format('the %s takes %s bytes, over the limit of 2097152 bytes (limits.payloadBytes)', $1, size),
      HINT = 'Store large values elsewhere, and pass a reference.';
  END IF;
  RETURN $2::text;
END
${channel}$;

-- Returns the ms of a duration: a number of ms, or a text as the client takes it. NULL: it is neither.
CREATE FUNCTION {schema}.request_duration(given jsonb) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS ${channel}$
DECLARE
  parts text[];
  ms numeric;
BEGIN
  IF jsonb_typeof($1) = 'number' THEN
    ms := ($1 #>> '{}')::numeric;
  ELSIF jsonb_typeof($1) = 'string' THEN
    parts := regexp_match($1 #>> '{}', '^([0-9]{1,16}(?:[.][0-9]{1,16})?)(ms|s|m|h|d)$');
    ms := parts[1]::numeric
      * CASE parts[2] WHEN 'ms' THEN 1 WHEN 's' THEN 1000 WHEN 'm' THEN 60000 WHEN 'h' THEN 3600000 ELSE 86400000 END;
  END IF;
  RETURN CASE WHEN ms BETWEEN 0 AND 8640000000000000 THEN round(ms) END;
END
${channel}$;

-- Returns the ms since 1970 of a time: a number of them, or a text of ISO 8601 with an offset. NULL: it is neither.
CREATE FUNCTION {schema}.request_time(given jsonb) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS ${channel}$
DECLARE
  ms numeric;
BEGIN
  IF jsonb_typeof($1) = 'number' THEN
    ms := ($1 #>> '{}')::numeric;
  ELSIF $1 #>> '{}' ~ ('^[0-9]{4}(-[0-9]{2}){2}[T ][0-9]{2}(:[0-9]{2}){1,2}([.][0-9]{1,9})?'
    || '(Z|[+-][0-9]{2}(:?[0-9]{2})?)$') THEN
    ms := extract(epoch FROM ($1 #>> '{}')::timestamptz) * 1000;
  END IF;
  RETURN CASE WHEN ms BETWEEN -8640000000000000 AND 8640000000000000 THEN round(ms) END;
EXCEPTION
  WHEN invalid_datetime_format OR datetime_field_overflow OR invalid_time_zone_displacement_value THEN RETURN NULL;
END
${channel}$;

-- Returns what is wrong with an option of a start; NULL: nothing. An option that is null counts as left out.
CREATE FUNCTION {schema}.request_option_problem(option text, given jsonb) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS ${channel}$
DECLARE
  no_duration constant text :=
    'must be a duration: a number of ms, or a text such as "250ms", "1.5s", "5m", "24h", "7d"';
  known constant text[] := '{version, priority, tags, queue, key, delay, startAt, timeout, gracePeriod, onConflict}';
BEGIN
  RETURN CASE
    WHEN $2 = 'null' AND $1 = ANY (known) THEN NULL
    WHEN $1 IN ('version', 'queue', 'key') THEN
      CASE WHEN jsonb_typeof($2) <> 'string' OR char_length($2 #>> '{}') NOT BETWEEN 1 AND 256
        THEN 'must be a string of 1 to 256 characters' END
    WHEN $1 = 'priority' THEN
      CASE WHEN jsonb_typeof($2) <> 'number' THEN 'must be a whole number from -2147483648 to 2147483647'
        WHEN ($2 #>> '{}')::numeric <> trunc(($2 #>> '{}')::numeric)
          OR ($2 #>> '{}')::numeric NOT BETWEEN -2147483648 AND 2147483647
        THEN 'must be a whole number from -2147483648 to 2147483647' END
    WHEN $1 = 'tags' THEN
      CASE WHEN jsonb_typeof($2) <> 'object' THEN 'must be an object of strings'
        WHEN jsonb_path_exists($2, 'strict $.* ? (@.type() != "string")') THEN 'must be an object of strings' END
    WHEN $1 IN ('delay', 'timeout', 'gracePeriod') THEN
      CASE WHEN {schema}.request_duration($2) IS NULL THEN no_duration
        WHEN $1 = 'timeout' AND {schema}.request_duration($2) = 0 THEN 'must be at least 1 ms' END
    WHEN $1 = 'startAt' THEN
      CASE WHEN {schema}.request_time($2) IS NULL
        THEN 'must be a time: a text with an offset, such as "2030-01-31T12:00:00Z", or a number of ms since 1970' END
    WHEN $1 = 'onConflict' THEN
      CASE WHEN $2 NOT IN ('"error"', '"return"') THEN 'must be "error" or "return"; only a client replaces an '
        || 'instance' END
    WHEN $1 IN ('debounce', 'throttle', 'singleton') THEN 'is not for a start in a transaction, because such a start '
      || 'needs the lock of its key: call client.start'
    ELSE 'is unknown; the options are ' || array_to_string(known, ', ')
  END;
END
${channel}$;

-- Refuses wrong options of a start.
CREATE FUNCTION {schema}.check_request_options(given jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS ${channel}$
DECLARE
  key text;
  value jsonb;
  problem text;
BEGIN
  IF jsonb_typeof($1) <> 'object' THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
      MESSAGE = format('the options must be a JSON object, got a JSON %s', jsonb_typeof($1)),
      HINT = 'Pass the options as in {"version": "2", "priority": 5, "tags": {"a": "7"}, "queue": "mails"}.';
  END IF;
  FOR key, value IN SELECT e.key, e.value FROM jsonb_each($1) e LOOP
    problem := {schema}.request_option_problem(key, value);
    IF problem IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value',
        MESSAGE = format('the option ''%s'' %s', left(key, 60), problem),
        HINT = 'The options are those of client.startOrchestration.';
    END IF;
  END LOOP;
  problem := CASE
    WHEN $1 ->> 'key' IS NOT NULL AND $1 ->> 'queue' IS NULL
      THEN 'the option ''key'' needs the option ''queue'', because a key counts within its queue'
    WHEN $1 ->> 'gracePeriod' IS NOT NULL AND $1 ->> 'timeout' IS NULL
      THEN 'the option ''gracePeriod'' needs the option ''timeout'', because it begins when that is over'
    WHEN $1 ->> 'delay' IS NOT NULL AND $1 ->> 'startAt' IS NOT NULL
      THEN 'a start takes one of the options ''delay'' and ''startAt'', not both' END;
  IF problem IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = problem,
      HINT = 'The options are those of client.startOrchestration.';
  END IF;
END
${channel}$;

-- Starts an instance. `input` is the text as it is stored. Returns false if the id is in use, and `onConflict` is
-- 'return'.
CREATE FUNCTION {schema}.start_encoded(
  id text, name text, input text DEFAULT NULL, options jsonb DEFAULT NULL, trace text DEFAULT NULL
) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS ${channel}$
DECLARE
  given jsonb := coalesce($4, '{}');
  stored_id text := replace($1, chr(1), chr(1) || '1');
  stored_queue text;
  keeps boolean;
  tags jsonb;
  timeout_ms bigint;
BEGIN
  PERFORM {schema}.check_request_name('instance id', $1);
  PERFORM {schema}.check_request_name('orchestration name', $2);
  PERFORM {schema}.check_request_options(given);
  keeps := given ->> 'onConflict' IS NOT DISTINCT FROM 'return';
  tags := nullif(given -> 'tags', 'null');
  timeout_ms := {schema}.request_duration(given -> 'timeout');
  stored_queue := replace(given ->> 'queue', chr(1), chr(1) || '1');
  IF stored_queue IS NOT NULL AND NOT EXISTS (SELECT FROM {schema}.queues q WHERE q.name = stored_queue) THEN
    PERFORM {schema}.refuse_request('no queue', stored_id, stored_queue);
  END IF;
  IF EXISTS (SELECT FROM {schema}.instances i WHERE i.id = stored_id) OR EXISTS (
    SELECT FROM {schema}.requests r
    WHERE r.xid = pg_current_xact_id() AND r.instance = stored_id AND r.kind = 'Start'
  ) THEN
    IF keeps THEN
      RETURN false;
    END IF;
    PERFORM {schema}.refuse_request('exists', stored_id);
  END IF;
  INSERT INTO {schema}.requests (kind, instance, name, payload, version, priority, tags, trace, keeps, queue,
    queue_key, due_after, due_at, time_limit)
  SELECT 'Start', stored_id, replace($2, chr(1), chr(1) || '1'), replace($3, chr(1), chr(1) || '1'),
    replace(coalesce(given ->> 'version', ''), chr(1), chr(1) || '1'), coalesce((given ->> 'priority')::numeric, 0),
    CASE WHEN tags IS NOT NULL THEN (
      SELECT '{' || coalesce(string_agg(to_json(t.key)::text || ':' || to_json(t.value)::text, ','), '') || '}'
      FROM jsonb_each_text(tags) t) END,
    $5, keeps, stored_queue, replace(coalesce(given ->> 'key', ''), chr(1), chr(1) || '1'),
    coalesce({schema}.request_duration(given -> 'delay'), 0), {schema}.request_time(given -> 'startAt'),
    '{"timeoutMs":' || timeout_ms
      || coalesce(',"graceMs":' || {schema}.request_duration(given -> 'gracePeriod'), '') || '}';
  RETURN true;
END
${channel}$;

CREATE FUNCTION {schema}.start(id text, name text, input jsonb DEFAULT NULL, options jsonb DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS ${channel}$
BEGIN
  RETURN {schema}.start_encoded($1, $2, {schema}.check_request_value('input', $3), $4);
END
${channel}$;

-- Adds a message to an instance that takes it, or that this transaction starts.
CREATE FUNCTION {schema}.add_request_message(
  kind text, instance text, name text, payload text, unread_max bigint
) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS ${channel}$
DECLARE
  stored_id text := replace($2, chr(1), chr(1) || '1');
  found_status text;
  found_unread bigint;
  found_waits boolean;
BEGIN
  PERFORM {schema}.check_request_name('instance id', $2);
  SELECT i.status, i.unread, i.epoch = 0 AND i.owner IS NULL
    AND (i.wake_at <= extract(epoch FROM clock_timestamp()) * 1000) IS NOT TRUE
  INTO found_status, found_unread, found_waits FROM {schema}.instances i WHERE i.id = stored_id;
  IF found_status IN ('Completed', 'Failed', 'Cancelled', 'Terminated') THEN
    IF $1 = 'Cancel' THEN
      RETURN;
    END IF;
    PERFORM {schema}.refuse_request('ended', stored_id, found_status);
  ELSIF found_status = 'Suspended' AND $1 = 'Cancel' THEN
    PERFORM {schema}.refuse_request('suspended', stored_id);
  ELSIF found_waits AND $1 = 'Cancel' THEN
    PERFORM {schema}.refuse_request('waits', stored_id);
  ELSIF found_unread >= $5 THEN
    PERFORM {schema}.refuse_request('full', stored_id, $5::text);
  ELSIF found_status IS NULL THEN
    SELECT r.queue IS NOT NULL OR r.due_after > 0
      OR (r.due_at > extract(epoch FROM clock_timestamp()) * 1000) IS TRUE INTO found_waits
    FROM {schema}.requests r WHERE r.xid = pg_current_xact_id() AND r.instance = stored_id AND r.kind = 'Start';
    IF NOT FOUND THEN
      PERFORM {schema}.refuse_request('absent', stored_id);
    ELSIF found_waits AND $1 = 'Cancel' THEN
      PERFORM {schema}.refuse_request('waits', stored_id);
    END IF;
  END IF;
  INSERT INTO {schema}.requests (kind, instance, name, payload, unread_max)
  VALUES ($1, stored_id, replace($3, chr(1), chr(1) || '1'), replace($4, chr(1), chr(1) || '1'), $5);
END
${channel}$;

CREATE FUNCTION {schema}.raise_event_encoded(
  id text, name text, data text DEFAULT NULL, unread_max bigint DEFAULT 1000000
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS ${channel}$
BEGIN
  PERFORM {schema}.check_request_name('event name', $2);
  PERFORM {schema}.add_request_message('Event', $1, $2, $3, $4);
END
${channel}$;

CREATE FUNCTION {schema}.raise_event(id text, name text, data jsonb DEFAULT NULL)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS ${channel}$
BEGIN
  PERFORM {schema}.raise_event_encoded($1, $2, {schema}.check_request_value('event', $3));
END
${channel}$;

CREATE FUNCTION {schema}.enqueue_event_encoded(
  id text, queue text, data text DEFAULT NULL, unread_max bigint DEFAULT 1000000
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS ${channel}$
BEGIN
  PERFORM {schema}.check_request_name('queue name', $2);
  PERFORM {schema}.add_request_message('Queue', $1, $2, $3, $4);
END
${channel}$;

CREATE FUNCTION {schema}.enqueue_event(id text, queue text, data jsonb DEFAULT NULL)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS ${channel}$
BEGIN
  PERFORM {schema}.enqueue_event_encoded($1, $2, {schema}.check_request_value('event', $3));
END
${channel}$;

CREATE FUNCTION {schema}.cancel_encoded(id text, reason text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS ${channel}$
BEGIN
  PERFORM {schema}.add_request_message('Cancel', $1, NULL, $2, NULL);
END
${channel}$;

CREATE FUNCTION {schema}.cancel(id text, reason text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS ${channel}$
BEGIN
  PERFORM {schema}.cancel_encoded($1, {schema}.check_request_value('reason', to_jsonb($2)));
END
${channel}$;

-- Returns a stored text as `key`, if it is plain JSON, and else as `key` || 'Encoded': the text of a value beyond JSON
-- begins with `~`, and that of a codec with `#`.
CREATE FUNCTION {schema}.stored_value(key text, stored text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS ${channel}$
BEGIN
  RETURN CASE WHEN $2 IS NULL THEN '{}' ELSE jsonb_build_object($1, $2::jsonb) END;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
  RETURN jsonb_build_object($1 || 'Encoded', $2);
END
${channel}$;

CREATE FUNCTION {schema}.status(id text) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS ${channel}$
  SELECT jsonb_build_object(
      'id', $1, 'name', replace(i.name, chr(1) || '1', chr(1)), 'version', replace(i.version, chr(1) || '1', chr(1)),
      'status', i.status, 'executionId', i.execution, 'customStatusVersion', i.custom_status_version,
      'createdAt', to_char(to_timestamp(i.created_at / 1000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
      'updatedAt', to_char(to_timestamp(i.updated_at / 1000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
      'priority', i.priority)
    || CASE WHEN i.completed_at IS NULL THEN '{}' ELSE jsonb_build_object('completedAt',
      to_char(to_timestamp(i.completed_at / 1000.0) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')) END
    || CASE WHEN i.parent_id IS NULL THEN '{}'
      ELSE jsonb_build_object('parentId', replace(i.parent_id, chr(1) || '1', chr(1))) END
    || {schema}.stored_value('tags', coalesce(i.tags, '{}'))
    || {schema}.stored_value('customStatus', i.custom_status)
    || {schema}.stored_value(CASE i.status WHEN 'Completed' THEN 'output' ELSE 'error' END,
      coalesce(h.payload, i.report))
  FROM {schema}.instances i LEFT JOIN {schema}.history h ON i.completed_at IS NOT NULL
    AND h.instance_key = i.key AND h.execution = i.execution AND h.event_id = i.next_event_id - 1
  WHERE i.id = replace($1, chr(1), chr(1) || '1')
${channel}$;

-- Carries out all requests of the transaction when the first of them comes up, and nothing for the others (Q4).
CREATE FUNCTION {schema}.carry_out_requests() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on SET enable_seqscan = off AS ${channel}$
DECLARE
  now_ms bigint := extract(epoch FROM clock_timestamp()) * 1000;
  has_starts boolean;
  has_messages boolean;
  queue_names text[];
  lost record;
  refused record;
  receivers text[];
  work boolean;
BEGIN
  IF NOT EXISTS (SELECT FROM {schema}.requests r WHERE r.xid = NEW.xid AND r.n = NEW.n) THEN
    RETURN NULL;
  END IF;
  SELECT bool_or(r.kind = 'Start'), bool_or(r.kind <> 'Start') INTO has_starts, has_messages
  FROM {schema}.requests r WHERE r.xid = NEW.xid;
  -- Receivers are locked in the order of their keys, then starts are made in the order of their ids (Q1).
  IF has_messages THEN
    PERFORM FROM {schema}.instances i
    WHERE i.id IN (SELECT r.instance FROM {schema}.requests r WHERE r.xid = NEW.xid AND r.kind <> 'Start')
    ORDER BY i.key FOR NO KEY UPDATE;
  END IF;
  IF has_starts THEN
    queue_names := ARRAY(
      SELECT DISTINCT r.queue FROM {schema}.requests r WHERE r.xid = NEW.xid AND r.queue IS NOT NULL);
    WITH {locked_queues}, s AS MATERIALIZED (
      SELECT a.*, a.due > now_ms AS is_delayed, a.queue IS NOT NULL AND q.name IS NULL AS is_refused, q.turn, q.is_fair
      FROM (
        SELECT r.*, greatest(r.due_at, now_ms + r.due_after) AS due, nextval({keys}) AS key FROM (
          SELECT r.* FROM {schema}.requests r WHERE r.xid = NEW.xid AND r.kind = 'Start' ORDER BY r.n) r
      ) a LEFT JOIN q ON q.name = a.queue
    ), made AS (
      INSERT INTO {schema}.instances (key, id, name, version, execution, status, epoch, next_event_id, turns, wake_at,
        priority, tags, created_at, updated_at)
      SELECT s.key, s.instance, s.name, s.version, 1, 'Pending', 0, 2, 0, CASE WHEN s.queue IS NULL THEN s.due END,
        s.priority, s.tags, now_ms, now_ms
      FROM s WHERE NOT s.is_refused ORDER BY s.instance
      ON CONFLICT (id) DO NOTHING RETURNING key
    ), appended AS (
      -- With IS TRUE the keys are hashed. A join would compare each pair, because the planner expects one row.
      INSERT INTO {schema}.history (instance_key, execution, event_id, time, kind, name, payload, meta)
      SELECT s.key, 1, 1, now_ms, 'ExecutionStarted', s.name, s.payload,
        {schema}.start_meta(replace(s.version, chr(1) || '1', chr(1)), s.time_limit, s.trace)
      FROM s WHERE (s.key IN (SELECT m.key FROM made m)) IS TRUE
    ), entered AS (
      {enter_queues}
    )
    SELECT s.instance, s.queue, s.is_refused INTO lost FROM s
    WHERE s.is_refused OR NOT s.keeps AND s.key NOT IN (SELECT m.key FROM made m)
    ORDER BY NOT s.is_refused, s.n LIMIT 1;
    IF lost.is_refused THEN
      PERFORM {schema}.refuse_request('no queue', lost.instance, lost.queue);
    ELSIF lost.instance IS NOT NULL THEN
      PERFORM {schema}.refuse_request('exists', lost.instance);
    END IF;
  END IF;
  IF has_messages THEN
    -- An instance that has ended since the check drops its messages (Q5), and so does one that is gone.
    WITH numbered AS MATERIALIZED (
      SELECT r.n, r.kind, r.name, r.payload, r.instance, r.unread_max, i.key, i.owner, i.status,
        i.epoch = 0 AND i.owner IS NULL AND (i.wake_at <= now_ms) IS NOT TRUE AS waits,
        i.message_seq + row_number() OVER of_instance AS seq, i.unread + row_number() OVER of_instance AS unread
      FROM {schema}.requests r JOIN {schema}.instances i ON i.id = r.instance
      WHERE r.xid = NEW.xid AND r.kind <> 'Start'
        AND i.status NOT IN ('Completed', 'Failed', 'Cancelled', 'Terminated')
      WINDOW of_instance AS (PARTITION BY i.key ORDER BY r.n)
    ), put AS (
      INSERT INTO {schema}.messages (instance_key, seq, kind, name, payload, time)
      SELECT m.key, m.seq, m.kind, m.name, m.payload, now_ms FROM numbered m
    ), told AS (
      -- An instance that no worker has acquired yet is due at its own time (P25).
      UPDATE {schema}.instances i SET unread = c.unread, message_seq = c.seq, wake_at =
        CASE WHEN i.owner IS NULL AND i.status <> 'Suspended' AND i.epoch > 0 THEN least(i.wake_at, now_ms)
          ELSE i.wake_at END
      FROM (SELECT m.key, max(m.unread) AS unread, max(m.seq) AS seq FROM numbered m GROUP BY m.key) c
      WHERE i.key = c.key
    ), failed AS (
      SELECT m.* FROM numbered m
      WHERE m.unread > m.unread_max OR m.kind = 'Cancel' AND (m.status = 'Suspended' OR m.waits) ORDER BY m.n LIMIT 1
    )
    SELECT f.instance, f.kind, f.unread_max, f.status,
      (SELECT array_agg(DISTINCT m.owner) FROM numbered m WHERE m.owner IS NOT NULL) AS owners,
      EXISTS (SELECT FROM numbered m WHERE m.owner IS NULL) AS work
    INTO refused FROM (SELECT) one LEFT JOIN failed f ON true;
    IF refused.kind = 'Cancel' THEN
      PERFORM {schema}.refuse_request(
        CASE refused.status WHEN 'Suspended' THEN 'suspended' ELSE 'waits' END, refused.instance);
    ELSIF refused.kind IS NOT NULL THEN
      PERFORM {schema}.refuse_request('full', refused.instance, refused.unread_max::text);
    END IF;
    receivers := refused.owners;
    work := refused.work;
  END IF;
  DELETE FROM {schema}.requests r WHERE r.xid = NEW.xid;
  -- The form of a notification is that of change_notifier.rs. No process has the name of this sender.
  IF has_starts OR work OR receivers IS NOT NULL THEN
    PERFORM pg_notify('{channel}', 'sql ' || CASE WHEN has_starts OR work THEN 'w' ELSE '' END
      || CASE WHEN receivers IS NULL THEN '' WHEN cardinality(receivers) > 100 THEN '*'
        ELSE 'm ' || array_to_string(receivers, ' ') END);
  END IF;
  RETURN NULL;
END
${channel}$;

-- Returns the meta of the first event of an instance. The seed is a number of 64 bits without a sign, and the
-- incarnation the same in hexadecimal digits. Only the random digits of UUIDs are used.
CREATE FUNCTION {schema}.start_meta(version text, time_limit text, trace text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS ${channel}$
DECLARE
  a text := replace(gen_random_uuid()::text, '-', '');
  b text := replace(gen_random_uuid()::text, '-', '');
  seed numeric := ('x' || left(a, 12) || right(a, 4))::bit(64)::bigint;
BEGIN
  RETURN '{"version":' || to_json($1)::text
    || ',"seed":"' || CASE WHEN seed < 0 THEN seed + 18446744073709551616 ELSE seed END
    || '","incarnation":"' || left(b, 12) || right(b, 4) || '"'
    || coalesce(',"timeLimit":' || $2, '') || coalesce(',"trace":' || to_json($3)::text, '') || '}';
END
${channel}$;

CREATE CONSTRAINT TRIGGER requests_carried_out AFTER INSERT ON {schema}.requests
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {schema}.carry_out_requests();

-- No role but the owner may call a function of a new store.
REVOKE ALL ON FUNCTION {schema}.refuse_request, {schema}.check_request_name, {schema}.check_request_value,
  {schema}.request_duration, {schema}.request_time, {schema}.request_option_problem,
  {schema}.check_request_options, {schema}.start_encoded, {schema}.start, {schema}.add_request_message,
  {schema}.raise_event_encoded, {schema}.raise_event, {schema}.enqueue_event_encoded, {schema}.enqueue_event,
  {schema}.cancel_encoded, {schema}.cancel, {schema}.stored_value, {schema}.status, {schema}.carry_out_requests,
  {schema}.start_meta FROM PUBLIC;
