// The studio: one agent's definition, checked while it is typed, shown as a prompt, tried on a copy of a session, saved.
// What is not saved survives a reload: it is kept for the tab under the agent's name until it is saved or thrown away.

import { startFrame } from "./banner.js";
import { all, allow, ask, h, newKey, one, onceAtATime, pageData, pretty, say, setText } from "./dom.js";
import { dryRun, dryRunParts } from "./dryrun.js";
import { JsonMistake, lineAt, placeOf, readJson } from "./jsonplaces.js";
import { inCharacters, promptParts } from "./prompt.js";

const CHECK_MS = 300;
const MY_NAME = "stepwell.my-name";
const DRAFTS = "stepwell.studio/";

const { chosen, session } = pageData("studio") ?? {};

// --- the text, and what of it is not saved ---------------------------------------------------------------------------------

const editor = one("[data-editor]");
const prose = one("[data-prose]");
const gutter = one("[data-gutter]");
const versions = one("[data-version]");
const key = chosen && `${DRAFTS}${chosen.agent_set}/${chosen.agent_id}`;
let known = chosen?.versions ?? [];
let basedOn = chosen?.based_on ?? 0;
let shown = editor?.value ?? ""; // what the editor held before anybody typed
let read = {}; // {value, places} of the text, or {mistake}
let mistakes = null; // null while nobody has checked

const isChanged = () => editor.value !== shown;
/** The id in the definition: another one than the agent's is a new agent, whose first version it is. */
const ownId = () => read.value?.id;
const isNewAgent = () => typeof ownId() === "string" && ownId() !== "" && ownId() !== chosen.agent_id;

function readEditor() {
  try {
    read = readJson(editor.value);
  } catch (mistake) {
    if (!(mistake instanceof JsonMistake)) throw mistake;
    read = { mistake };
  }
}

/** Take another text up: it is what the server knows, unless `isDraft`. */
function put(text, { isDraft = false } = {}) {
  editor.value = text;
  if (!isDraft) shown = text;
  edited();
}

function edited() {
  readEditor();
  numberLines();
  keepDraft();
  fillProse();
  showUnsaved();
  checkSoon();
}

function keepDraft() {
  try {
    if (isChanged()) sessionStorage.setItem(key, JSON.stringify({ text: editor.value, basedOn }));
    else sessionStorage.removeItem(key);
  } catch {
    // storage may be full or switched off; only the memory of the draft is lost
  }
}

function draft() {
  try {
    return JSON.parse(sessionStorage.getItem(key));
  } catch {
    return null;
  }
}

function begin() {
  const kept = draft();
  if (typeof kept?.text !== "string" || kept.text === shown) return edited();
  basedOn = kept.basedOn;
  put(kept.text, { isDraft: true });
  one("[data-restored]").hidden = false;
  if (basedOn !== newestVersion()) showConflict();
  return undefined;
}

function showUnsaved() {
  one("[data-unsaved]").hidden = !isChanged();
  setText(one("[data-submit]"), isNewAgent() ? `Save as new agent ${ownId()}` : `Save as version ${basedOn + 1}`);
  if (read.value) {
    setText(one("#agent-name"), String(read.value.name || ownId() || "(no name)"));
    setText(one("[data-id]"), isNewAgent() ? `${ownId()} (new)` : String(ownId() ?? ""));
  }
  for (const link of all("[data-agent]")) {
    const mark = one("[data-draft]", link);
    const isHere = link.dataset.agent === `${chosen.agent_set}/${chosen.agent_id}`;
    mark.hidden = isHere ? !isChanged() : !hasDraft(link.dataset.agent);
  }
}

function hasDraft(agent) {
  try {
    return sessionStorage.getItem(`${DRAFTS}${agent}`) !== null;
  } catch {
    return false;
  }
}

// --- the prompt text on its own ----------------------------------------------------------------------------------------------

function fillProse() {
  const text = read.value?.text;
  prose.disabled = !read.value || (text !== undefined && typeof text !== "string");
  if (document.activeElement !== prose && prose.value !== (text ?? "")) prose.value = text ?? "";
}

/** What is written in the prompt becomes the definition's `text`; the rest of it stays as it is. */
function proseEdited() {
  if (!read.value || typeof read.value !== "object" || Array.isArray(read.value)) return;
  editor.value = pretty({ ...read.value, text: prose.value });
  edited();
}

function choose(tabs, tab) {
  for (const each of tabs) {
    const isChosen = each === tab;
    each.setAttribute("aria-selected", String(isChosen));
    each.tabIndex = isChosen ? 0 : -1;
    document.getElementById(each.getAttribute("aria-controls")).hidden = !isChosen;
  }
}

function wireTabs(selector, onChosen) {
  const tabs = all(selector);
  const turn = (tab) => {
    choose(tabs, tab);
    onChosen?.(tab);
  };
  for (const tab of tabs) {
    tab.addEventListener("click", () => turn(tab));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = tabs[(tabs.indexOf(tab) + step + tabs.length) % tabs.length];
      next.focus();
      turn(next);
    });
  }
  return (name) => turn(tabs.find((tab) => Object.values(tab.dataset).includes(name)));
}

// --- lines -------------------------------------------------------------------------------------------------------------------

function numberLines() {
  const count = editor.value.split("\n").length;
  if (gutter.children.length === count) return;
  gutter.replaceChildren(...Array.from({ length: count }, (_, at) => h("span", {}, String(at + 1))));
}

function markLines(lines) {
  [...gutter.children].forEach((line, at) => line.classList.toggle("wrong", lines.has(at + 1)));
}

function goToLine(area, number) {
  const lines = area.value.split("\n");
  const start = lines.slice(0, number - 1).join("\n").length + (number > 1 ? 1 : 0);
  area.focus();
  area.setSelectionRange(start, start + (lines[number - 1] ?? "").length);
  area.scrollTop = Math.max(0, (number - 4) * parseFloat(getComputedStyle(area).lineHeight));
  area.scrollLeft = 0;
}

// --- mistakes ----------------------------------------------------------------------------------------------------------------

let checkTimer = null;
let asking = null;

function checkSoon() {
  clearTimeout(checkTimer);
  asking?.abort();
  if (read.mistake) return showMistakes([{ field: "", message: read.mistake.message, line: lineAt(editor.value, read.mistake.offset) }], "This is not JSON yet");
  mistakes = null;
  settle();
  checkTimer = setTimeout(check, CHECK_MS);
  return undefined;
}

async function check() {
  asking = new AbortController();
  const { signal } = asking;
  try {
    const { errors } = await ask("POST", "/api/copilot/check", { definition: read.value }, { signal });
    if (signal.aborted) return;
    showMistakes(errors.map(placed));
    lookSoon();
  } catch (problem) {
    if (!signal.aborted) showUnchecked(problem);
  }
}

function placed({ field, message }) {
  const ofTemplate = field === "text" && /\(line (\d+)\)/.exec(message);
  return { field, message, line: lineAt(editor.value, placeOf(read.places, field)), proseLine: ofTemplate ? Number(ofTemplate[1]) : null };
}

function showMistakes(found, words = "") {
  mistakes = found;
  const count = found.length === 1 ? "1 mistake" : `${found.length} mistakes`;
  setText(one("[data-verdict]"), found.length ? words || count : "No mistakes");
  one("[data-verdict]").className = found.length ? "t-failed line" : "t-done line";
  one("[data-mistakes]").replaceChildren(...found.map(mistakeRow));
  editor.setAttribute("aria-invalid", String(found.length > 0));
  markLines(new Set(found.map(({ line }) => line)));
  settle();
}

function showUnchecked(problem) {
  setText(one("[data-verdict]"), `Not checked: ${problem.message}`);
  one("[data-verdict]").className = "t-failed line";
}

function mistakeRow(mistake) {
  const { field, message, line, proseLine } = mistake;
  const where = proseLine ? `prompt, line ${proseLine}` : `line ${line}`;
  const go = () => {
    showPane(proseLine ? "text" : "json");
    goToLine(proseLine ? prose : editor, proseLine ?? line);
  };
  const name = field || (read.mistake ? "JSON" : "The whole");
  return h("li", {}, h("button", { type: "button", class: "link", click: go }, name), " ", h("span", { class: "num muted" }, where), " ", h("span", {}, message));
}

// --- what it would do ----------------------------------------------------------------------------------------------------------

let looking = null;

function lookSoon() {
  if (!one("#pane-prompt").hidden) look();
}

async function look() {
  looking?.abort();
  looking = new AbortController();
  const { signal } = looking;
  const pane = one("[data-prompt]");
  if (read.mistake || mistakes?.length) return setText(one("[data-prompt-line]"), "There is a prompt again when the mistakes are gone.");
  try {
    const body = { definition: read.value, ...(session ? { session_id: session.session_id } : {}) };
    const { messages, characters } = await ask("POST", "/api/copilot/preview", body, { signal });
    if (signal.aborted) return undefined;
    const where = session ? "the board of the session, as far as it is stored" : "an empty board";
    setText(one("[data-prompt-line]"), `${inCharacters(characters)} on ${where}.`);
    pane.replaceChildren(...promptParts(messages));
  } catch (problem) {
    if (signal.aborted) return undefined;
    const told = (problem.errors ?? []).map(({ field, message }) => `${field.replace(/^definition\.?/, "") || "definition"}: ${message}`);
    setText(one("[data-prompt-line]"), told.join(" ") || problem.message);
    pane.replaceChildren();
  }
  return undefined;
}

async function tryIt() {
  showLook("dry");
  const [line, wrong, result] = ["[data-dry-line]", "[data-dry-error]", "[data-dry-result]"].map((selector) => one(selector));
  setText(wrong, "");
  result.replaceChildren();
  try {
    const found = await dryRun(read.value, session.session_id, (stage) => setText(line, stage));
    result.replaceChildren(...dryRunParts(found));
    setText(line, found.run ? "The dry run is over." : "The dry run is over: the agent was not run.");
  } catch (problem) {
    setText(line, "");
    setText(wrong, wordsOf(problem));
  }
}

const wordsOf = (problem) => [problem.message, ...(problem.errors ?? []).map(({ field, message }) => `${field}: ${message}`)].join(" ");

// --- saving ------------------------------------------------------------------------------------------------------------------

const newestVersion = () => known[0]?.version ?? 0;
const versionsPath = (id = chosen.agent_id) => `/api/copilot/agents/${encodeURIComponent(id)}/versions`;

async function save() {
  const wrong = one("[data-save-error]");
  const text = editor.value;
  const note = one("[data-note]");
  const isAnother = isNewAgent();
  setText(wrong, "");
  const body = { agent_set: chosen.agent_set, definition: read.value, based_on: isAnother ? 0 : basedOn, note: note.value.trim() || null, saved_by: one("[data-name]").value.trim() || null };
  try {
    const saved = await ask("POST", versionsPath(isAnother ? ownId() : undefined), body);
    if (isAnother) return goToAgent(saved.agent_id);
    known = [saved, ...known];
    note.value = "";
    took(saved, text);
    say(`Saved as version ${saved.version}`);
  } catch (problem) {
    if (problem.status === 409 && !isAnother) await meanwhile();
    else setText(wrong, wordsOf(problem));
  }
  return undefined;
}

/** A new agent has a page of its own; the agent that it was made from is as it was. */
function goToAgent(id) {
  put(shown);
  const search = { agent_set: chosen.agent_set, agent_id: id, session_id: session?.session_id ?? "" };
  location.assign(`/copilot/studio?${new URLSearchParams(search)}`);
}

const STARTER = { id: "my_agent", name: "My agent", trigger_config: { mode: "turn_based", cooldown: 15 }, model_config: { context_turns: 6 }, output_format: "default", text: "You listen to a conversation. Say what would help now, in one short sentence." };

function beginAnother() {
  put(pretty(STARTER), { isDraft: true });
  goToLine(editor, 2);
  say("A new agent: give it an id of its own");
}

/** A saved version is the one to go on from; what was typed meanwhile stays typed. */
function took(saved, text) {
  basedOn = saved.version;
  shown = text;
  one("[data-conflict]").hidden = true;
  one("[data-restored]").hidden = true;
  fillVersions(saved.version);
  const tag = one(`[data-agent="${CSS.escape(`${chosen.agent_set}/${chosen.agent_id}`)}"]`);
  if (tag) {
    one(".tag", tag)?.remove();
    one(".label", tag).after(h("span", { class: "tag" }, `v${saved.version}`));
  }
  edited();
}

function fillVersions(value) {
  const words = (entry) => `${entry.version ? `Version ${entry.version}` : "Ships with Stepwell"}${entry.saved_by ? ` by ${entry.saved_by}` : ""}${entry.note ? `: ${entry.note}` : ""}`;
  versions.replaceChildren(...known.map((entry) => h("option", { value: entry.version }, words(entry))));
  versions.value = String(value);
}

/** Somebody saved meanwhile: nothing typed is lost, and what they changed is shown beside it. */
async function meanwhile() {
  try {
    known = (await ask("GET", `${versionsPath()}?agent_set=${encodeURIComponent(chosen.agent_set)}`)).items;
  } catch (problem) {
    setText(one("[data-save-error]"), problem.message);
    return;
  }
  fillVersions(basedOn);
  showConflict();
}

function showConflict() {
  const theirs = known[0];
  const before = known.find(({ version }) => version === basedOn);
  const who = theirs.saved_by ? ` by ${theirs.saved_by}` : "";
  const keep = h("button", { type: "button", click: () => rebase(theirs) }, `Keep mine: save it as version ${theirs.version + 1}`);
  const load = h("button", { type: "button", click: () => loadTheirs(theirs) }, `Load version ${theirs.version}`);
  one("[data-conflict]").replaceChildren(
    h("p", {}, h("strong", {}, `Version ${theirs.version} was saved meanwhile${who}${theirs.note ? `: ${theirs.note}` : "."}`), " Nothing that you typed is lost."),
    h("div", { class: "changes" }, h("p", { class: "muted" }, `What it changed since version ${basedOn}`), difference(pretty(before?.definition ?? {}), pretty(theirs.definition))),
    h("div", { class: "tool-answers" }, keep, load),
  );
  one("[data-conflict]").hidden = false;
  say(`Version ${theirs.version} was saved meanwhile`);
}

function rebase(theirs) {
  basedOn = theirs.version;
  one("[data-conflict]").hidden = true;
  edited();
  one("[data-submit]").focus();
}

function loadTheirs(theirs) {
  const [mine, base] = [editor.value, basedOn];
  basedOn = theirs.version;
  fillVersions(theirs.version);
  put(pretty(theirs.definition));
  const back = () => {
    basedOn = base;
    put(mine, { isDraft: true });
    showConflict();
    editor.focus();
  };
  one("[data-conflict]").replaceChildren(h("p", {}, "This is their version. ", h("button", { type: "button", class: "link", click: back }, "Put mine back")));
  editor.focus();
}

/** What two texts differ in, line by line: what stands before and behind is left out. */
function difference(old, fresh) {
  const [before, after] = [old.split("\n"), fresh.split("\n")];
  let head = 0;
  while (head < before.length && head < after.length && before[head] === after[head]) head += 1;
  let tail = 0;
  while (tail < before.length - head && tail < after.length - head && before.at(-1 - tail) === after.at(-1 - tail)) tail += 1;
  const row = (tag, words) => (line) => h(tag, {}, h("span", { class: "sr" }, words), line);
  const gone = before.slice(head, before.length - tail).map(row("del", "was: "));
  const come = after.slice(head, after.length - tail).map(row("ins", "is now: "));
  return h("pre", { tabindex: "0", role: "group", "aria-label": "What changed" }, ...(gone.length + come.length ? [...gone, ...come] : ["Nothing in the definition."]));
}

async function useIt() {
  const version = Number(versions.value);
  const body = { agent_set: chosen.agent_set, agent_id: chosen.agent_id, version, idempotency_key: newKey() };
  try {
    await ask("POST", `/api/copilot/sessions/${encodeURIComponent(session.session_id)}/agents`, body);
    const words = version ? `version ${version}` : "the one that ships";
    setText(one(".running"), `The session uses ${words} from its next turn on.`);
    say(`The session uses ${words} from its next turn on`);
  } catch (problem) {
    setText(one("[data-save-error]"), wordsOf(problem));
  }
}

// --- which buttons can be pressed ------------------------------------------------------------------------------------------------

function settle() {
  const amiss = read.mistake ? "This is not JSON yet." : mistakes === null ? "It is being checked." : mistakes.length ? "It has mistakes." : "";
  const isNew = !known.length;
  const isNewest = !isNew && !amiss && pretty(read.value) === pretty(known[0].definition);
  allow(one("[data-submit]"), amiss || (isNewest ? "This is the newest version." : ""));
  allow(one("[data-dry]"), session ? amiss : "Choose a session first.");
  const inSession = !session ? "Choose a session first." : session.ended ? "The session has ended." : "";
  allow(one("[data-use]"), inSession || (isNew || isNewAgent() ? "Save it first." : isChanged() ? "Save it first: a session uses a version." : ""));
}

function showVersion() {
  const entry = known.find(({ version }) => version === Number(versions.value));
  if (!entry) return;
  const mine = isChanged() ? editor.value : null;
  const from = basedOn;
  basedOn = newestVersion(); // an older version that is saved again is the newest one then
  put(pretty(entry.definition));
  if (mine === null) return;
  const back = () => {
    basedOn = from;
    put(mine, { isDraft: true });
    one("[data-restored]").hidden = true;
  };
  one("[data-restored]").replaceChildren(h("p", {}, "Your unsaved work is kept. ", h("button", { type: "button", class: "link", click: back }, "Put it back")));
  one("[data-restored]").hidden = false;
}

function discard() {
  basedOn = newestVersion();
  put(pretty(known[0]?.definition ?? chosen.definition));
  one("[data-restored]").hidden = true;
  one("[data-conflict]").hidden = true;
  editor.focus();
}

function onKeys(event) {
  if (!event.ctrlKey && !event.metaKey) return;
  if (event.key === "s") {
    event.preventDefault();
    one("[data-submit]").click();
  } else if (event.key === "Enter") {
    event.preventDefault();
    one("[data-dry]").click();
  }
}

let showPane = () => {};
let showLook = () => {};

function wire() {
  showPane = wireTabs("[data-pane]", fillProse);
  showLook = wireTabs("[data-look]", lookSoon);
  editor.addEventListener("input", edited);
  editor.addEventListener("scroll", () => {
    gutter.scrollTop = editor.scrollTop;
  });
  prose.addEventListener("input", proseEdited);
  one("[data-studio]").addEventListener("keydown", onKeys);
  one("[data-discard]").addEventListener("click", discard);
  one("[data-another]").addEventListener("click", beginAnother);
  versions.addEventListener("change", showVersion);
  one("[data-session]").addEventListener("change", (event) => event.target.form.submit());
  one("[data-save]").addEventListener("submit", (event) => {
    event.preventDefault();
    onceAtATime(one("[data-submit]"), save);
  });
  one("[data-dry]").addEventListener("click", (event) => onceAtATime(event.currentTarget, tryIt));
  one("[data-use]").addEventListener("click", (event) => onceAtATime(event.currentTarget, useIt));
}

startFrame();
const name = one("[data-name]");
name.value = localStorage.getItem(MY_NAME) ?? "";
name.addEventListener("change", () => localStorage.setItem(MY_NAME, name.value.trim()));
if (chosen) {
  wire();
  begin();
}
