// Certificates and lists of revoked ones (X.509, RFC 5280), made and signed here. This needs no program, and no
// certificate expires in the sources.

import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';
import { isIPv4 } from 'node:net';

/** A certificate with its key, PEM. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
  readonly serial: Buffer;
}

const DAY_MS = 86_400_000;

// Encodes DER (ITU-T X.690): a tag, a length and the content.
function der(tag: number, ...parts: Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const head = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...head]), content]);
}

const sequence = (...parts: Buffer[]): Buffer => der(0x30, ...parts);
const integer = (bytes: Buffer): Buffer => der(0x02, bytes);
const number = (value: number): Buffer => integer(Buffer.from([value]));
const octets = (bytes: Buffer): Buffer => der(0x04, bytes);
const bits = (bytes: Buffer, unused = 0): Buffer => der(0x03, Buffer.from([unused]), bytes);
const yes = der(0x01, Buffer.from([0xff]));
const field = (n: number, ...parts: Buffer[]): Buffer => der(0xa0 + n, ...parts);
const time = (ms: number): Buffer =>
  der(
    0x17,
    Buffer.from(
      `${new Date(ms)
        .toISOString()
        .replace(/[-:T]|\.\d+/g, '')
        .slice(2)}`,
    ),
  );

function oid(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number);
  const bytes = [first * 40 + second];
  for (const arc of rest) {
    const groups = [arc & 0x7f];
    for (let left = arc >>> 7; left > 0; left >>>= 7) groups.unshift((left & 0x7f) | 0x80);
    bytes.push(...groups);
  }
  return der(0x06, Buffer.from(bytes));
}

const ECDSA_WITH_SHA256 = sequence(oid('1.2.840.10045.4.3.2'));

const extension = (id: string, value: Buffer, isCritical = false): Buffer =>
  sequence(oid(id), ...(isCritical ? [yes] : []), octets(value));
const nameOf = (common: string): Buffer =>
  sequence(der(0x31, sequence(oid('2.5.4.3'), der(0x0c, Buffer.from(common)))));

function pem(label: string, bytes: Buffer): string {
  const lines = bytes.toString('base64').match(/.{1,64}/g) ?? [];
  return [`-----BEGIN ${label}-----`, ...lines, `-----END ${label}-----`, ''].join('\n');
}

/** Signs certificates, and issues the list of those that it has revoked. */
export class Authority {
  readonly #key: KeyObject;
  readonly #name: Buffer;
  readonly #keyId: Buffer;
  /** The certificate of the authority itself, PEM. */
  readonly cert: string;

  constructor(common: string) {
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    this.#key = privateKey;
    this.#name = nameOf(common);
    this.#keyId = createHash('sha1').update(common).digest();
    // The authority may sign certificates and lists, and nothing else.
    const extensions = [
      extension('2.5.29.19', sequence(yes), true),
      extension('2.5.29.15', bits(Buffer.from([0x06]), 1), true),
      extension('2.5.29.14', octets(this.#keyId)),
    ];
    this.cert = this.#certified(this.#name, publicKey, Buffer.from([1]), extensions);
  }

  /** Issues a new certificate for an address or a host name. */
  issue(host: string): Certificate {
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const serial = Buffer.concat([Buffer.from([0x40]), randomBytes(7)]);
    const name = isIPv4(host) ? der(0x87, Buffer.from(host.split('.').map(Number))) : der(0x82, Buffer.from(host));
    const cert = this.#certified(nameOf(host), publicKey, serial, [
      extension('2.5.29.17', sequence(name)),
      this.#signer(),
    ]);
    return { cert, key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string, serial };
  }

  /** Returns the list of revoked certificates, PEM. */
  revoked(...certificates: Certificate[]): string {
    const now = Date.now();
    const entries = certificates.map(({ serial }) => sequence(integer(serial), time(now - DAY_MS)));
    const list = sequence(
      number(1),
      ECDSA_WITH_SHA256,
      this.#name,
      time(now - DAY_MS),
      time(now + DAY_MS),
      ...(entries.length === 0 ? [] : [sequence(...entries)]),
      field(0, sequence(this.#signer(), extension('2.5.29.20', number(1)))),
    );
    return pem('X509 CRL', this.#signed(list));
  }

  #certified(name: Buffer, key: KeyObject, serial: Buffer, extensions: Buffer[]): string {
    const now = Date.now();
    const validity = sequence(time(now - DAY_MS), time(now + DAY_MS));
    const publicKey = key.export({ type: 'spki', format: 'der' });
    return pem(
      'CERTIFICATE',
      this.#signed(
        sequence(
          field(0, number(2)),
          integer(serial),
          ECDSA_WITH_SHA256,
          this.#name,
          validity,
          name,
          publicKey,
          field(3, sequence(...extensions)),
        ),
      ),
    );
  }

  #signer(): Buffer {
    return extension('2.5.29.35', sequence(der(0x80, this.#keyId)));
  }

  #signed(content: Buffer): Buffer {
    return sequence(content, ECDSA_WITH_SHA256, bits(sign('sha256', content, this.#key)));
  }
}
