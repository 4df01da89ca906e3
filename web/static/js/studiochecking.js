// Finding mistakes while somebody types: asked of the server after a pause, listed, and marked at their lines.

import { ask, h, one, setText } from "./dom.js";
import { lineAt, placeOf } from "./jsonplaces.js";
import { desk, editor } from "./studiodesk.js";

const CHECK_MS = 300;

const prose = one("[data-prose]");
const gutter = one("[data-gutter]");
let heard = { settle: () => {}, good: () => {}, showPane: () => {} };

/** `settle` hears of every change of what is known, `good` of a definition that was checked; `showPane` shows an editor. */
export function onChecked(handlers) {
  heard = handlers;
}

let checkTimer = null;
let asking = null;

/** Check what was typed, after a pause; what is no JSON is told at once. */
export function checkSoon() {
  clearTimeout(checkTimer);
  asking?.abort();
  if (desk.read.mistake) return showMistakes([{ field: "", message: desk.read.mistake.message, line: lineAt(editor.value, desk.read.mistake.offset) }], "This is not JSON yet");
  desk.mistakes = null;
  heard.settle();
  checkTimer = setTimeout(check, CHECK_MS);
  return undefined;
}

/** Ask the server now. */
export async function check() {
  asking = new AbortController();
  const { signal } = asking;
  try {
    const { errors, warnings } = await ask("POST", "/api/copilot/check", { definition: desk.read.value }, { signal });
    if (signal.aborted) return;
    showMistakes(errors.map(placed), "", warnings.map(placed));
    heard.good();
  } catch (problem) {
    if (!signal.aborted) showUnchecked(problem);
  }
}

/** A mistake with its line. One of a version of several may stand in the fields around them. */
function placed({ field, message }) {
  const own = desk.read.places.has(field) ? field : field.replace(/^versions\.\d+\.(?=\w)/, "");
  const ofTemplate = own === "text" && /\(line (\d+)\)/.exec(message);
  const offset = placeOf(desk.read.places, desk.read.places.has(own) ? own : field);
  return { field, message, line: lineAt(editor.value, offset), proseLine: ofTemplate ? Number(ofTemplate[1]) : null };
}

const counted = (list, word) => `${list.length} ${word}${list.length === 1 ? "" : "s"}`;

/** A warning is what can run and is hardly meant: it keeps nobody from saving. */
function showMistakes(found, words = "", warnings = []) {
  desk.mistakes = found;
  const good = warnings.length ? `No mistakes, ${counted(warnings, "warning")}` : "No mistakes";
  setText(one("[data-verdict]"), found.length ? words || counted(found, "mistake") : good);
  one("[data-verdict]").className = `${found.length ? "t-failed" : warnings.length ? "t-waiting" : "t-done"} line`;
  one("[data-mistakes]").replaceChildren(...[...found, ...warnings].map(mistakeRow));
  editor.setAttribute("aria-invalid", String(found.length > 0));
  markLines(new Set(found.map(({ line }) => line)));
  heard.settle();
}

function showUnchecked(problem) {
  setText(one("[data-verdict]"), `Not checked: ${problem.message}`);
  one("[data-verdict]").className = "t-failed line";
}

function mistakeRow(mistake) {
  const { field, message, line, proseLine } = mistake;
  const where = proseLine ? `prompt, line ${proseLine}` : `line ${line}`;
  const go = () => {
    heard.showPane(proseLine ? "text" : "json");
    goToLine(proseLine ? prose : editor, proseLine ?? line);
  };
  const name = field || (desk.read.mistake ? "JSON" : "The whole");
  return h("li", {}, h("button", { type: "button", class: "link", click: go }, name), " ", h("span", { class: "num muted" }, where), " ", h("span", {}, message));
}

// --- lines -----------------------------------------------------------------------------------------------------------

/** A number for each line of the definition. */
export function numberLines() {
  const count = editor.value.split("\n").length;
  if (gutter.children.length === count) return;
  gutter.replaceChildren(...Array.from({ length: count }, (_, at) => h("span", {}, String(at + 1))));
}

function markLines(lines) {
  [...gutter.children].forEach((line, at) => line.classList.toggle("wrong", lines.has(at + 1)));
}

/** Mark a line and bring it into view. */
export function goToLine(area, number) {
  const lines = area.value.split("\n");
  const start = lines.slice(0, number - 1).join("\n").length + (number > 1 ? 1 : 0);
  area.focus();
  area.setSelectionRange(start, start + (lines[number - 1] ?? "").length);
  area.scrollTop = Math.max(0, (number - 4) * parseFloat(getComputedStyle(area).lineHeight));
  area.scrollLeft = 0;
}
