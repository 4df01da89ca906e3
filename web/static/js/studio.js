// The studio: one agent's definition, checked while it is typed, shown as a prompt, tried on a copy of a session, saved.

import { live, startFrame } from "./banner.js";
import { all, allow, ask, one, onceAtATime, pretty, setText } from "./dom.js";
import { dryRun, dryRunParts } from "./dryrun.js";
import { inCharacters, promptParts } from "./prompt.js";
import { check, checkSoon, numberLines, onChecked } from "./studiochecking.js";
import { chosen, desk, draft, edited, editor, hasDraft, isChanged, isNewAgent, newestVersion, onEdited, ownId, put, session } from "./studiodesk.js";
import { beginAnother, discard, save, showConflict, showVersion, useIt, wordsOf } from "./studioversions.js";
import { wireTabs } from "./tabs.js";

const FOLLOW_MS = 500;
const MY_NAME = "stepwell.my-name";

const prose = one("[data-prose]");

// --- what is shown of the text -------------------------------------------------------------------------------------------

function begin() {
  const kept = draft();
  if (typeof kept?.text !== "string" || kept.text === desk.shown) return edited();
  desk.basedOn = kept.basedOn;
  put(kept.text, { isDraft: true });
  one("[data-restored]").hidden = false;
  if (desk.basedOn !== newestVersion()) showConflict();
  return undefined;
}

function showUnsaved() {
  one("[data-unsaved]").hidden = !isChanged();
  setText(one("[data-submit]"), isNewAgent() ? `Save as new agent ${ownId()}` : `Save as version ${desk.basedOn + 1}`);
  if (desk.read.value) {
    setText(one("#agent-name"), String(desk.read.value.name || ownId() || "(no name)"));
    setText(one("[data-id]"), isNewAgent() ? `${ownId()} (new)` : String(ownId() ?? ""));
  }
  for (const link of all("[data-agent]")) {
    const mark = one("[data-draft]", link);
    const isHere = link.dataset.agent === `${chosen.agent_set}/${chosen.agent_id}`;
    mark.hidden = isHere ? !isChanged() : !hasDraft(link.dataset.agent);
  }
}

function fillProse() {
  const text = desk.read.value?.text;
  prose.disabled = !desk.read.value || (text !== undefined && typeof text !== "string");
  if (document.activeElement !== prose && prose.value !== (text ?? "")) prose.value = text ?? "";
}

/** What is written in the prompt becomes the definition's `text`; the rest of it stays as it is. */
function proseEdited() {
  if (!desk.read.value || typeof desk.read.value !== "object" || Array.isArray(desk.read.value)) return;
  editor.value = pretty({ ...desk.read.value, text: prose.value });
  edited();
}

let looking = null;
let followTimer = null;
let lastShown = "";

function lookSoon() {
  if (!one("#pane-prompt").hidden) look();
}

/** The session goes on: its board is another one with each step. */
function follow() {
  if (!session) return;
  live.follow({ session_id: session.session_id }, null, {
    apply: (events) => {
      if (events.some(({ event }) => event === "step")) followTimer ??= setTimeout(followed, FOLLOW_MS);
      return events.length;
    },
    resync: () => {},
  });
}

function followed() {
  followTimer = null;
  if (!desk.read.mistake && desk.mistakes?.length === 0) lookSoon();
}

async function look() {
  looking?.abort();
  looking = new AbortController();
  const { signal } = looking;
  const pane = one("[data-prompt]");
  if (desk.read.mistake || desk.mistakes?.length) return setText(one("[data-prompt-line]"), "There is a prompt again when the mistakes are gone.");
  try {
    const body = { definition: desk.read.value, ...(session ? { session_id: session.session_id } : {}) };
    const { messages, characters } = await ask("POST", "/api/copilot/preview", body, { signal });
    if (signal.aborted) return undefined;
    const where = session ? "the board of the session, as far as it is stored" : "an empty board";
    setText(one("[data-prompt-line]"), `${inCharacters(characters)} on ${where}.`);
    if (lastShown !== pretty(messages)) pane.replaceChildren(...promptParts(messages)); // else nothing is scrolled away
    lastShown = pretty(messages);
  } catch (problem) {
    if (signal.aborted) return undefined;
    const told = (problem.errors ?? []).map(({ field, message }) => `${field.replace(/^definition\.?/, "") || "definition"}: ${message}`);
    setText(one("[data-prompt-line]"), told.join(" ") || problem.message);
    pane.replaceChildren();
    lastShown = "";
  }
  return undefined;
}

async function tryIt() {
  showLook("dry");
  const [line, wrong, result] = ["[data-dry-line]", "[data-dry-error]", "[data-dry-result]"].map((selector) => one(selector));
  setText(wrong, "");
  result.replaceChildren();
  try {
    const found = await dryRun(desk.read.value, session.session_id, (stage) => setText(line, stage));
    result.replaceChildren(...dryRunParts(found));
    setText(line, found.run ? "The dry run is over." : "The dry run is over: the agent was not run.");
  } catch (problem) {
    setText(line, "");
    setText(wrong, wordsOf(problem));
  }
}

// --- which buttons can be pressed ------------------------------------------------------------------------------------------------

function settle() {
  const amiss = desk.read.mistake ? "This is not JSON yet." : desk.mistakes === null ? "It is being checked." : desk.mistakes.length ? "It has mistakes." : "";
  const isNew = !desk.known.length;
  const isNewest = !isNew && !amiss && pretty(desk.read.value) === pretty(desk.known[0].definition);
  allow(one("[data-submit]"), amiss || (isNewest ? "This is the newest version." : ""));
  allow(one("[data-dry]"), session ? amiss : "Choose a session first.");
  const inSession = !session ? "Choose a session first." : session.ended ? "The session has ended." : "";
  allow(one("[data-use]"), inSession || (isNew || isNewAgent() ? "Save it first." : isChanged() ? "Save it first: a session uses a version." : ""));
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
  [numberLines, fillProse, showUnsaved, checkSoon].forEach(onEdited);
  onChecked({ settle, good: lookSoon, showPane });
  editor.addEventListener("input", edited);
  editor.addEventListener("scroll", () => {
    one("[data-gutter]").scrollTop = editor.scrollTop;
  });
  prose.addEventListener("input", proseEdited);
  one("[data-studio]").addEventListener("keydown", onKeys);
  one("[data-discard]").addEventListener("click", discard);
  one("[data-another]").addEventListener("click", beginAnother);
  one("[data-version]").addEventListener("change", showVersion);
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
  follow();
  live.addEventListener("back", () => {
    if (desk.mistakes === null && !desk.read.mistake) check(); // nobody answered while the connection was lost
  });
}
