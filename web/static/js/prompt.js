// A prompt of an agent for people: its sections under their names, its data blocks as the JSON that they are.
// Text of definitions, boards and models reaches the page as text nodes only.

import { h, pretty } from "./dom.js";

/** The names of sections as `monikers/copilot/prompts.py` writes them. */
const SECTION = /^\[(YOUR MEMORY \/ SCRATCHPAD|RELEVANT KNOWLEDGE\/DOCS|TRIGGER|HOW TO READ DATA|OUTPUT FORMAT)\]$/m;
const TRANSCRIPT = /^### TRANSCRIPT:\n/;
const DATA = /<data>\n([^\n]*)\n<\/data>/;
const WORDS = {
  "YOUR MEMORY / SCRATCHPAD": "Memory",
  "RELEVANT KNOWLEDGE/DOCS": "Documents",
  TRIGGER: "Why it is asked",
  "HOW TO READ DATA": "How to read data",
  "OUTPUT FORMAT": "Output format",
};

export const inCharacters = (count) => `${count.toLocaleString("en")} characters`;

/** The messages as elements, one a section. */
export function promptParts(messages) {
  return messages.flatMap(({ role, content }) => (role === "user" ? transcript(content) : sections(content)));
}

function sections(content) {
  const parts = content.split(new RegExp(SECTION, "gm"));
  const found = parts[0].trim() ? [part("Words of the host and the author", parts[0])] : [];
  for (let at = 1; at < parts.length; at += 2) found.push(part(WORDS[parts[at]], parts[at + 1]));
  return found;
}

const transcript = (content) => [part("Transcript", content.replace(TRANSCRIPT, ""))];

function part(title, content) {
  const text = content.trim();
  const pieces = text.split(DATA);
  const shown = pieces.map((piece, at) => (at % 2 ? dataBlock(piece, title) : wordsOf(piece, title)));
  return h("section", { class: "told-part" }, h("h3", {}, title, " ", h("span", { class: "count" }, inCharacters(text.length))), ...shown);
}

const wordsOf = (piece, title) => (piece.trim() ? box(piece.trim(), title) : null);

function dataBlock(piece, title) {
  try {
    const lines = JSON.parse(piece);
    return box(readable(lines), `${title}, data`, "data");
  } catch {
    return box(piece, title);
  }
}

/** A list of texts, such as a transcript, is read line by line. */
function readable(value) {
  const inner = Object.values(value);
  const isLines = inner.length === 1 && Array.isArray(inner[0]) && inner[0].every((line) => typeof line === "string");
  if (isLines) return inner[0].length ? inner[0].join("\n") : "(nothing)";
  return pretty(value);
}

/** A text that can be scrolled by keyboard. */
export function box(text, label, kind = "") {
  return h("pre", { class: kind || null, tabindex: "0", role: "group", "aria-label": label }, text);
}
