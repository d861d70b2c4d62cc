// Users' text made safe for a terminal or a log: no id or name may steer a terminal, or look like a line of its own.

/**
 * The characters that are not just shown: control characters, and those that change the direction of the text after
 * them.
 */
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** The control characters that JSON and `inspect` leave as they are. */
const LEFT = /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

function escaped(character: string): string {
  const named = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }[character];
  return named ?? `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** Returns a text in one line. */
export function printable(text: string): string {
  return text.replace(CONTROL, escaped);
}

/** Applies {@link printable} line by line. Each line but the first begins with `indent`. */
export function printableLines(text: string, indent = ''): string {
  return text.split('\n').map(printable).join(`\n${indent}`);
}

/** Makes the output of JSON or `inspect` harmless to look at. JSON keeps its meaning. */
export function escapeControls(text: string): string {
  return text.replace(LEFT, escaped);
}
