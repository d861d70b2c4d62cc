// Connection URLs of a Postgres server that asks for passwords: those that lead to it, and a hundred that do not.

/** The outcome of a URL: a store opens, it is refused for good, or the server cannot be reached now. */
export type Outcome = 'opens' | 'refused' | 'away';

/** The server, and the other ports that are open beside it. */
export interface Place {
  readonly host: string;
  readonly port: number;
  /** Folder of its Unix socket. `undefined` if there is none. */
  readonly socket: string | undefined;
  /**
   * Ports of 127.0.0.1 where no answer comes, where a server that is no Postgres answers, and where connections are
   * closed at once.
   */
  readonly mute: number;
  readonly foreign: number;
  readonly closing: number;
  readonly dead: number;
  /** True if a server answers at the default port. That server does not know these roles. */
  readonly hasDefault: boolean;
}

/** The password of every role but `odd`. It must not be shown anywhere. */
export const CANARY = 'c4naryS3cret';

/** The password of `odd`. It contains all characters that must be quoted in a URL. */
export const ODD = `a@b/c?d#e%f g:h&i=j+k[l]é😀${CANARY}`;

const quoted = encodeURIComponent;

export function urls(place: Place): (readonly [url: string, outcome: Outcome])[] {
  const at = `${place.host}:${place.port}`;
  const app = `postgres://app:${CANARY}@`;
  const right = `${app}${at}/shop`;
  const each = (outcome: Outcome, ...list: string[]): [string, Outcome][] => list.map((url) => [url, outcome]);
  return [
    ...shapes(at, right, app, each),
    ...credentials(at, each),
    ...parameters(right, at, each),
    ...places(place, right, app, each),
  ];
}

type Each = (outcome: Outcome, ...list: string[]) => [string, Outcome][];

function shapes(at: string, right: string, app: string, each: Each): [string, Outcome][] {
  return [
    ...schemes(at, right, each),
    ...bytes(at, right, app, each),
    ...hosts(at, app, each),
    ...lengths(at, right, app, each),
  ];
}

/** URLs with the right scheme, another one, or none. */
function schemes(at: string, right: string, each: Each): [string, Outcome][] {
  return [
    ...each('opens', right, right.replace('postgres:', 'postgresql:')),
    ...each(
      'refused',
      'postgres',
      'postgres:',
      'postgres:/',
      'postgres://',
      'postgres:///',
      'postgres:///shop',
      '\0',
      ' ',
      CANARY,
      `:${CANARY}@`,
    ),
    ...each(
      'refused',
      `//app:${CANARY}@${at}/shop`,
      `app:${CANARY}@${at}/shop`,
      `postgres:app:${CANARY}@${at}/shop`,
      ` ${right}`,
      `jdbc:${right}`,
    ),
    ...each(
      'refused',
      ...['mysql', 'http', 'POSTGRES', 'postgres+ssl', 'file', 'javascript', 'pg'].map(
        (scheme) => `${scheme}://app:${CANARY}@${at}/shop`,
      ),
    ),
    ...each(
      'refused',
      `host=127.0.0.1 user=app password=${CANARY} dbname=shop`,
      `postgres://app:${CANARY}@`,
      `postgres://app:${CANARY}@/shop`,
    ),
  ];
}

/** URLs with bytes that no name contains. */
function bytes(at: string, right: string, app: string, each: Each): [string, Outcome][] {
  return [
    ...each(
      'refused',
      `${right}\0`,
      `postgres://app:${CANARY}\0@${at}/shop`,
      `postgres://app:${CANARY}%00@${at}/shop`,
      `postgres://app%00:${CANARY}@${at}/shop`,
    ),
    ...each('refused', `${app}${at}/shop%00`, `${app}${at}/%FF%FE`, `postgres://%C3%28:${CANARY}@${at}/shop`),
  ];
}

/** URLs with hosts and ports in every shape. */
function hosts(at: string, app: string, each: Each): [string, Outcome][] {
  return [
    ...each('refused', ...['[::1', '[', '[::1]x', '[::1]:x', '::1', 'a:b:c'].map((host) => `${app}${host}/shop`)),
    ...each(
      'refused',
      `${app}${at}:${at}/shop`,
      `${app}${place(at)}:port/shop`,
      `${app}${place(at)}:65536/shop`,
      `${app}${place(at)}:-1/shop`,
    ),
    ...each(
      'refused',
      `${app}${place(at)}:0x1538/shop`,
      `${app}${place(at)}:%20/shop`,
      `${app}${place(at)}:５４３２/shop`,
    ),
    // Hosts that are listed after one that lets us in are not tried.
    ...each('opens', `${app}${at},/shop`),
  ];
}

/** URLs with a part of a million characters, and with hosts that have no address. */
function lengths(at: string, right: string, app: string, each: Each): [string, Outcome][] {
  const long = 'x'.repeat(1_000_000);
  return [
    ...each('refused', `${right}?${long}=${CANARY}`),
    // The server closes the connection at so long a startup message.
    ...each(
      'away',
      `postgres://${long}:${CANARY}@${at}/shop`,
      `${app}${at}/${long}`,
      `${app}${long}/shop`,
      `${app}no-such-host.invalid/shop`,
      `${app}%20/shop`,
    ),
  ];
}

function place(at: string): string {
  return at.slice(0, at.lastIndexOf(':'));
}

function credentials(at: string, each: Each): [string, Outcome][] {
  const as = (user: string, database = 'shop'): string => `postgres://${user}:${CANARY}@${at}/${database}`;
  const odd = ['odd', quoted(ODD)].join(':');
  return [
    ...each('opens', `postgres://${odd}@${at}/shop`, `postgres://a%40b%2Fc:${CANARY}@${at}/shop`),
    // An unquoted password is refused, or read unchanged, and never shown.
    ...each(
      'refused',
      ...['@', '/', '?', '#', ':', '%', '&', '[', ']', '\\', ' ', '😀', '\ud800'].map(
        (mark) => `postgres://app:${CANARY}${mark}${CANARY}@${at}/shop`,
      ),
    ),
    ...each(
      'refused',
      `postgres://app:12/${CANARY}@${at}/shop`,
      `postgres://app:12?${CANARY}=1@${at}/shop`,
      `postgres://app:${CANARY}@${at}/shop@${CANARY}`,
    ),
    ...each(
      'refused',
      `postgres://app:wrong${CANARY}@${at}/shop`,
      `postgres://app@${at}/shop?password=${CANARY}%20`,
      `postgres://app:@${at}/shop`,
      `postgres://app@${at}/shop`,
      `postgres://${at}/shop`,
      `postgres://:${CANARY}@${at}/shop`,
    ),
    ...each(
      'refused',
      as('nobody'),
      as('nologin'),
      as('expired'),
      as('powerless'),
      as(quoted("' OR 1=1 --")),
      as('APP'),
      as('%F0%9F%98%80'),
    ),
    ...each(
      'refused',
      as('app', 'absent'),
      as('app', 'closed'),
      as('app', quoted('"shop"')),
      as('app', '..%2Fshop'),
      as('app', 'SHOP'),
    ),
    ...each('away', as('crowd')),
  ];
}

function parameters(right: string, at: string, each: Each): [string, Outcome][] {
  return [
    ...session(right, each),
    ...authentication(right, each),
    ...login(at, each),
    ...encryption(right, each),
    ...wrong(right, each),
  ];
}

const secret = `=${CANARY}`;

function withAll(right: string, ...queries: string[]): string[] {
  return queries.map((query) => `${right}?${query}`);
}

/** Parameters that are accepted. */
function session(right: string, each: Each): [string, Outcome][] {
  return [
    ...each(
      'opens',
      ...withAll(
        right,
        '',
        '&&',
        'sslmode=disable',
        'sslmode=allow',
        'sslmode=prefer',
        'connect_timeout=0',
        'connect_timeout=30',
        'keepalives=0',
        'target_session_attrs=read-write',
        'channel_binding=disable',
        'load_balance_hosts=random',
        'options=-c%20work_mem%3D1MB',
        'application_name=a%20%F0%9F%98%80',
      ),
    ),
  ];
}

/** The parameter `require_auth`, which restricts how the server may ask for the password. */
function authentication(right: string, each: Each): [string, Outcome][] {
  return [
    ...each(
      'opens',
      ...withAll(
        right,
        'require_auth=',
        'require_auth=scram-sha-256',
        'require_auth=md5%2Cscram-sha-256',
        'require_auth=!password,%21none',
        'require_auth=none&require_auth=scram-sha-256',
        'require_auth=scram-sha-256&sslmode=disable',
      ),
    ),
    ...each(
      'refused',
      ...withAll(
        right,
        `require_auth${secret}`,
        `require_auth=md5,${CANARY}`,
        'require_auth=none',
        'require_auth=password,md5',
        'require_auth=!scram-sha-256',
        'require_auth=scram-sha-256,scram-sha-256',
        'require_auth=!md5,none',
        'require_auth=gss',
        'require_auth=scram-sha-256&sslmode=require',
        'require_auth=scram-sha-256&sslnegotiation=direct',
        'sslnegotiation=direct',
      ),
    ),
  ];
}

/** Parameters in place of the user, the password and the database. */
function login(at: string, each: Each): [string, Outcome][] {
  return [
    ...each(
      'opens',
      `postgres://${at}/shop?user=app&password=${CANARY}`,
      `postgres://x:y@${at}/z?user=app&password=${CANARY}&dbname=shop`,
    ),
  ];
}

/** Parameters of TLS, which this server does not offer. */
function encryption(right: string, each: Each): [string, Outcome][] {
  return [
    ...each(
      'refused',
      ...withAll(
        right,
        `sslmode${secret}`,
        'sslmode=',
        'sslmode',
        'sslmode=require',
        'sslmode=verify-ca',
        'sslmode=verify-full',
        'sslmode=disable&sslmode=banana',
      ),
    ),
    ...each(
      'refused',
      ...withAll(
        right,
        'sslrootcert=/no/such/file',
        'sslrootcert=/',
        'sslrootcert=/dev/zero',
        'sslrootcert=%00',
        'sslcert=/etc/hostname',
        'sslkey=/etc/hostname',
        'sslcert=/etc/hostname&sslkey=/etc/hostname',
        'sslmode=verify-full&sslrootcert=/etc/hostname',
      ),
    ),
  ];
}

/** Unknown parameters, and wrong values. */
function wrong(right: string, each: Each): [string, Outcome][] {
  return [
    ...each(
      'refused',
      ...withAll(
        right,
        `no_such_parameter${secret}`,
        `${CANARY}${secret}`,
        `${CANARY}`,
        `Password${secret}`,
        `connect_timeout${secret}`,
        `keepalives${secret}`,
        `keepalives_idle${secret}`,
        `tcp_user_timeout${secret}`,
        `port${secret}`,
        `hostaddr${secret}`,
        `load_balance_hosts${secret}`,
        `target_session_attrs${secret}`,
        `channel_binding${secret}`,
        'channel_binding=require',
        'replication=database',
        'options=-c%20x',
        'options=--no-such-option',
        '%zz=1',
        '=',
        '?',
        '#fragment',
      ),
    ),
    ...each('refused', ...withAll(right, `dbname=${CANARY.toLowerCase()}%00`, `user=app@x&password=${CANARY}`)),
  ];
}

function places(
  { host, port, socket, mute, foreign, closing, dead, hasDefault }: Place,
  right: string,
  app: string,
  each: Each,
): [string, Outcome][] {
  const sockets =
    socket === undefined
      ? []
      : [
          ...each('opens', `${app}${quoted(socket)}:${port}/shop?require_auth=scram-sha-256`),
          ...each('refused', `${app}${quoted(socket)}:${port}/shop?require_auth=!scram-sha-256`),
          ...each('away', `${app}${quoted(socket)}:${dead}/shop?require_auth=scram-sha-256`),
          ...each(
            'opens',
            `${app}${quoted(socket)}:${port}/shop`,
            `postgres://app:${CANARY}@/shop?host=${quoted(socket)}&port=${port}`,
          ),
          ...each('away', `${app}${quoted(socket)}:${dead}/shop`),
        ];
  return [
    ...sockets,
    ...each(hasDefault ? 'refused' : 'away', `${app}${host}:/shop`),
    ...each(
      'opens',
      `${app}${host}:${dead},${host}:${port}/shop`,
      `${app}${host}:${closing},${host}:${port}/shop`,
      `${right}?hostaddr=127.0.0.1`,
    ),
    ...each(
      'away',
      `${app}${host}:${dead}/shop`,
      `${app}[::1]:${dead}/shop`,
      `${app}${host}:${dead},${host}:${closing}/shop`,
      `${app}%2Fno%2Fsuch%2Ffolder/shop`,
      `${app}/shop?host=/no/such/folder`,
    ),
    ...each(
      'away',
      `${app}${host}:${closing}/shop`,
      `${app}${host}:${mute}/shop`,
      `${app}${host}:${mute}/shop?sslmode=disable`,
      `${app}${host}:${mute},${host}:${mute}/shop`,
    ),
    ...each(
      'refused',
      `${app}${host}:${foreign}/shop?sslmode=require`,
      `${app}${host}:${foreign}/shop?sslmode=require&require_auth=!none`,
    ),
    ...each(
      'away',
      `${app}${host}:${foreign}/shop?sslmode=disable`,
      ...['disable', 'prefer'].map((mode) => `${app}${host}:${foreign}/shop?require_auth=!none&sslmode=${mode}`),
    ),
    ...each('away', ...[dead, mute, closing].map((other) => `${app}${host}:${other}/shop?require_auth=scram-sha-256`)),
    ...each('opens', `${app}${host}:${closing},${host}:${port}/shop?require_auth=scram-sha-256`),
  ];
}
