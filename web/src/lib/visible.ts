// biome-ignore-all lint/suspicious/noControlCharactersInRegex: these are what it looks for
// biome-ignore-all lint/suspicious/noMisleadingCharacterClass: they are single ones
// Characters that are not seen, or turn the order of what is read around, would let a
// command look like another one. They are shown by their number.
const hidden = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

export function visible(text: string): string {
  return text.replace(hidden, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
