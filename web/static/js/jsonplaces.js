// JSON with the places of its values: so that a mistake in a field can be shown in the line where it stands, and one in
// the JSON itself where it is. The browser's own parser says neither in words that are the same everywhere.

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const WORD = /true|false|null/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const BLANK = /[ \t\r\n]*/y;
const DEEPEST = 100;

/** A mistake in JSON, at an offset of its text. */
export class JsonMistake extends Error {
  constructor(message, offset) {
    super(message);
    this.offset = offset;
  }
}

/** `{value, places}` of a JSON text; `places` maps paths such as "trigger_config.mode" to offsets. Throws `JsonMistake`. */
export function readJson(text) {
  const reader = { text, at: 0, places: new Map() };
  blank(reader);
  const value = read(reader, "", 0);
  blank(reader);
  if (reader.at < text.length) throw mistake(reader, "nothing may stand behind the end");
  return { value, places: reader.places };
}

/** The offset of a field, or of what surrounds it when it is not there. */
export function placeOf(places, field) {
  const parts = field.split(".");
  for (let length = parts.length; length > 0; length -= 1) {
    const found = places.get(parts.slice(0, length).join("."));
    if (found !== undefined) return found;
  }
  return 0;
}

/** The number of the line in which an offset stands, the first being 1. */
export const lineAt = (text, offset) => text.slice(0, offset).split("\n").length;

const mistake = (reader, words) => new JsonMistake(words, reader.at);

function take(reader, pattern) {
  pattern.lastIndex = reader.at;
  const found = pattern.exec(reader.text);
  if (!found) return null;
  reader.at += found[0].length;
  return found[0];
}

const blank = (reader) => take(reader, BLANK);

function read(reader, path, depth) {
  if (depth > DEEPEST) throw mistake(reader, "it is nested too deep");
  if (path && !reader.places.has(path)) reader.places.set(path, reader.at);
  switch (reader.text[reader.at]) {
    case "{":
      return readObject(reader, path, depth);
    case "[":
      return readList(reader, path, depth);
    case '"':
      return readString(reader);
    case undefined:
      throw mistake(reader, "it ends too early: a value is missing");
    default:
      return readPlain(reader);
  }
}

function readPlain(reader) {
  const found = take(reader, WORD) ?? take(reader, NUMBER);
  if (found === null) throw mistake(reader, 'a value is due: an object, a list, a text in "quotes", a number, true, false or null');
  return JSON.parse(found);
}

function readString(reader) {
  const began = reader.at;
  const found = take(reader, STRING);
  if (found !== null) return JSON.parse(found);
  const end = reader.text.indexOf("\n", began);
  reader.at = began;
  throw mistake(reader, end >= 0 ? "this text does not end in its line, or has a \\ that means nothing" : "this text does not end, or has a \\ that means nothing");
}

function readObject(reader, path, depth) {
  const found = Object.create(null);
  each(reader, "}", () => {
    if (reader.text[reader.at] !== '"') throw mistake(reader, 'the name of a field is due, in "quotes"');
    const began = reader.at;
    const name = readString(reader);
    const inner = path ? `${path}.${name}` : name;
    reader.places.set(inner, began);
    blank(reader);
    if (reader.text[reader.at] !== ":") throw mistake(reader, "a colon is due behind the name of the field");
    reader.at += 1;
    blank(reader);
    found[name] = read(reader, inner, depth + 1);
  });
  return { ...found };
}

function readList(reader, path, depth) {
  const found = [];
  each(reader, "]", () => found.push(read(reader, path ? `${path}.${found.length}` : String(found.length), depth + 1)));
  return found;
}

/** Read what stands between brackets, with commas between. */
function each(reader, end, readOne) {
  reader.at += 1;
  blank(reader);
  if (reader.text[reader.at] === end) {
    reader.at += 1;
    return;
  }
  for (;;) {
    readOne();
    blank(reader);
    const sign = reader.text[reader.at];
    if (sign !== "," && sign !== end) throw mistake(reader, `a comma or ${end} is due`);
    reader.at += 1;
    if (sign === end) return;
    blank(reader);
    if (reader.text[reader.at] === end) throw mistake(reader, `no comma may stand before ${end}`);
  }
}
