// UUIDs whose order is the order in which they were made.

/** Returns a UUID that begins with the time, so that later ids sort later (RFC 9562, version 7). */
export function uuidv7(): string {
  const bytes = process.getBuiltinModule('node:crypto').randomBytes(16);
  bytes.writeUIntBE(Date.now(), 0, 6);
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x70, 6);
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  const hex = bytes.toString('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}
