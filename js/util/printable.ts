// Text of users as text for a terminal or a log: nothing in an id or a name may steer a terminal, or look like a line of its own.

/** Everything that is not just shown: control characters, and those that change the direction of what follows. */
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Those of them that JSON and `inspect` leave as they are. */
const LEFT = /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

function escaped(character: string): string {
  const named = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }[character];
  return named ?? `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** A text in one line. */
export function printable(text: string): string {
  return text.replace(CONTROL, escaped);
}

/** {@link printable} line by line; `indent` is what each line but the first begins with. */
export function printableLines(text: string, indent = ''): string {
  return text.split('\n').map(printable).join(`\n${indent}`);
}

/** What JSON or `inspect` made, harmless to look at; JSON means the same. */
export function harmless(text: string): string {
  return text.replace(LEFT, escaped);
}
