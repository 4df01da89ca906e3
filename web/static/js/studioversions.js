// Versions of an agent: saving one, what to do when somebody was first, looking at older ones, using one in a session.

import { ask, h, newKey, one, pretty, say, setText } from "./dom.js";
import { goToLine } from "./studiochecking.js";
import { chosen, desk, edited, editor, isChanged, isNewAgent, newestVersion, ownId, put, session } from "./studiodesk.js";

const STARTER = {
  id: "my_agent",
  name: "My agent",
  trigger_config: { mode: "turn_based", cooldown: 15 },
  model_config: { context_turns: 6 },
  output_format: "default",
  text: "You listen to a conversation. Say what would help now, in one short sentence.",
};

const versions = one("[data-version]");

/** An error of the server in words, each of its fields with what is wrong there. */
export const wordsOf = (problem) => [problem.message, ...(problem.errors ?? []).map(({ field, message }) => `${field}: ${message}`)].join(" ");

const versionsPath = (id = chosen.agent_id) => `/api/copilot/agents/${encodeURIComponent(id)}/versions`;

/** Save what is typed as the next version, or as the first one of a new agent. */
export async function save() {
  const wrong = one("[data-save-error]");
  const text = editor.value;
  const note = one("[data-note]");
  const isAnother = isNewAgent();
  setText(wrong, "");
  const body = { agent_set: chosen.agent_set, definition: desk.read.value, based_on: isAnother ? 0 : desk.basedOn, note: note.value.trim() || null, saved_by: one("[data-name]").value.trim() || null };
  try {
    const saved = await ask("POST", versionsPath(isAnother ? ownId() : undefined), body);
    if (isAnother) return goToAgent(saved.agent_id);
    desk.known = [saved, ...desk.known];
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
  put(desk.shown);
  const search = { agent_set: chosen.agent_set, agent_id: id, session_id: session?.session_id ?? "" };
  location.assign(`/copilot/studio?${new URLSearchParams(search)}`);
}

/** Put a small definition into the editor, for an agent that is not there yet. */
export function beginAnother() {
  put(pretty(STARTER), { isDraft: true });
  goToLine(editor, 2);
  say("A new agent: give it an id of its own");
}

/** A saved version is the one to go on from; what was typed meanwhile stays typed. */
function took(saved, text) {
  desk.basedOn = saved.version;
  desk.shown = text;
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
  versions.replaceChildren(...desk.known.map((entry) => h("option", { value: entry.version }, words(entry))));
  versions.value = String(value);
}

/** Somebody saved meanwhile: nothing typed is lost, and what they changed is shown beside it. */
async function meanwhile() {
  try {
    desk.known = (await ask("GET", `${versionsPath()}?agent_set=${encodeURIComponent(chosen.agent_set)}`)).items;
  } catch (problem) {
    setText(one("[data-save-error]"), problem.message);
    return;
  }
  fillVersions(desk.basedOn);
  showConflict();
}

/** Say what somebody else saved, and offer both ways on. */
export function showConflict() {
  const theirs = desk.known[0];
  const before = desk.known.find(({ version }) => version === desk.basedOn);
  const who = theirs.saved_by ? ` by ${theirs.saved_by}` : "";
  const keep = h("button", { type: "button", click: () => rebase(theirs) }, `Keep mine: save it as version ${theirs.version + 1}`);
  const load = h("button", { type: "button", click: () => loadTheirs(theirs) }, `Load version ${theirs.version}`);
  one("[data-conflict]").replaceChildren(
    h("p", {}, h("strong", {}, `Version ${theirs.version} was saved meanwhile${who}${theirs.note ? `: ${theirs.note}` : "."}`), " Nothing that you typed is lost."),
    h("div", { class: "changes" }, h("p", { class: "muted" }, `What it changed since version ${desk.basedOn}`), difference(pretty(before?.definition ?? {}), pretty(theirs.definition))),
    h("div", { class: "tool-answers" }, keep, load),
  );
  one("[data-conflict]").hidden = false;
  say(`Version ${theirs.version} was saved meanwhile`);
}

function rebase(theirs) {
  desk.basedOn = theirs.version;
  one("[data-conflict]").hidden = true;
  edited();
  one("[data-submit]").focus();
}

function loadTheirs(theirs) {
  const [mine, base] = [editor.value, desk.basedOn];
  desk.basedOn = theirs.version;
  fillVersions(theirs.version);
  put(pretty(theirs.definition));
  const back = () => {
    desk.basedOn = base;
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

/** Have the session use the version that is chosen. */
export async function useIt() {
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

/** Show the version that was chosen; what was typed can be put back. */
export function showVersion() {
  const entry = desk.known.find(({ version }) => version === Number(versions.value));
  if (!entry) return;
  const mine = isChanged() ? editor.value : null;
  const from = desk.basedOn;
  desk.basedOn = newestVersion(); // an older version that is saved again is the newest one then
  put(pretty(entry.definition));
  if (mine === null) return;
  const back = () => {
    desk.basedOn = from;
    put(mine, { isDraft: true });
    one("[data-restored]").hidden = true;
  };
  one("[data-restored]").replaceChildren(h("p", {}, "Your unsaved work is kept. ", h("button", { type: "button", class: "link", click: back }, "Put it back")));
  one("[data-restored]").hidden = false;
}

/** Throw unsaved work away. */
export function discard() {
  desk.basedOn = newestVersion();
  put(pretty(desk.known[0]?.definition ?? chosen.definition));
  one("[data-restored]").hidden = true;
  one("[data-conflict]").hidden = true;
  editor.focus();
}
