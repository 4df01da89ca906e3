// What the studio works on: one agent's definition as it is typed, what of it is saved, and who hears of a change.
// What is not saved survives a reload: it is kept for the tab under the agent's name until it is saved or thrown away.

import { one, pageData } from "./dom.js";
import { JsonMistake, readJson } from "./jsonplaces.js";

const DRAFTS = "stepwell.studio/";

export const { chosen, session } = pageData("studio") ?? {};
export const editor = one("[data-editor]");
const key = chosen && `${DRAFTS}${chosen.agent_set}/${chosen.agent_id}`;

export const desk = {
  known: chosen?.versions ?? [], // newest first
  basedOn: chosen?.based_on ?? 0,
  shown: editor?.value ?? "", // what the editor held before anybody typed
  read: {}, // {value, places} of the text, or {mistake}
  mistakes: null, // null while nobody has checked
};

const listeners = [];

/** Have `listener` called after each change of the text, in the order in which they came. */
export const onEdited = (listener) => listeners.push(listener);

export const isChanged = () => editor.value !== desk.shown;
export const newestVersion = () => desk.known[0]?.version ?? 0;
/** The id in the definition: another one than the agent's is a new agent, whose first version it is. */
export const ownId = () => desk.read.value?.id;
export const isNewAgent = () => typeof ownId() === "string" && ownId() !== "" && ownId() !== chosen.agent_id;

/** Take another text up: it is what the server knows, unless `isDraft`. */
export function put(text, { isDraft = false } = {}) {
  editor.value = text;
  if (!isDraft) desk.shown = text;
  edited();
}

export function edited() {
  readEditor();
  keepDraft();
  for (const listener of listeners) listener();
}

function readEditor() {
  try {
    desk.read = readJson(editor.value);
  } catch (mistake) {
    if (!(mistake instanceof JsonMistake)) throw mistake;
    desk.read = { mistake };
  }
}

function keepDraft() {
  try {
    if (isChanged()) sessionStorage.setItem(key, JSON.stringify({ text: editor.value, basedOn: desk.basedOn }));
    else sessionStorage.removeItem(key);
  } catch {
    // storage may be full or switched off; only the memory of the draft is lost
  }
}

/** What was typed and not saved before a reload: `{text, basedOn}`. */
export function draft() {
  try {
    return JSON.parse(sessionStorage.getItem(key));
  } catch {
    return null;
  }
}

/** Whether there is unsaved work on an agent, named as `set/id`. */
export function hasDraft(agent) {
  try {
    return sessionStorage.getItem(`${DRAFTS}${agent}`) !== null;
  } catch {
    return false;
  }
}
