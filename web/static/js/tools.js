// Tools of MCP servers: approved or withdrawn exactly as they are shown. Words that change while somebody reads them
// are not exchanged under his eyes: the row says so, and is read anew when he asks for it or when his answer is refused.

import { live, showBadge, startFrame } from "./banner.js";
import { all, allow, ask, h, one, onceAtATime, say, setText } from "./dom.js";

const REFRESH_MS = 300;
/** A row that has just been exchanged cannot be answered at once: the second click of a double click is no answer. */
const READ_MS = 1_000;
const MY_NAME = "stepwell.my-name";
const DONE = { approve: "Approved", withdraw: "Withdrawn" };
const CHANGED = "It has changed since you read it.";

const list = one("[data-list]");
const name = one("[data-name]");
const rowOf = (tool) => one(`[data-tool-id="${CSS.escape(tool)}"]`, list);
const toolOf = (element) => element?.closest("[data-tool-id]")?.dataset.toolId;

// --- the answer --------------------------------------------------------------------------------------------------------

async function judge(button) {
  const what = button.dataset.judge;
  const { toolId: tool, hash } = button.closest("[data-tool-id]").dataset;
  const by = name.value.trim() || undefined;
  setText(one("[data-error]", rowOf(tool)), "");
  try {
    await ask("POST", `/api/tools/${encodeURIComponent(tool)}/${what}`, { hash, [what === "approve" ? "approved_by" : "withdrawn_by"]: by });
  } catch (problem) {
    if (problem.status === 409) await refresh(tool);
    explain(tool, problem, hash);
    return;
  }
  await refresh(tool);
  say(`${DONE[what]}: ${tool}`);
}

/** Why an answer was not taken: the words were other ones by then, or what the server says. */
function explain(tool, problem, hash) {
  const row = rowOf(tool);
  if (!row) return say(`${tool} is gone`);
  if (problem.status === 409 && row.dataset.hash !== hash) setText(one("[data-note]", row), `${CHANGED} Nothing was done; here is what it says now.`);
  else setText(one("[data-error]", row), [problem.message, ...(problem.errors ?? []).map(({ message }) => message)].join(" "));
  return undefined;
}

// --- the list ----------------------------------------------------------------------------------------------------------

let timer = null;
let reading = Promise.resolve();

function refreshSoon() {
  timer ??= setTimeout(refresh, REFRESH_MS);
}

/** Take the server's rows, one read after the other; those of `anew` also where their words are other ones now. */
function refresh(anew = null) {
  clearTimeout(timer);
  timer = null;
  reading = reading.then(() => read(anew));
  return reading;
}

async function read(anew) {
  let page;
  try {
    const answer = await fetch(location.pathname);
    if (!answer.ok) return;
    page = new DOMParser().parseFromString(await answer.text(), "text/html");
  } catch {
    return; // the next change asks again
  }
  const focused = document.activeElement;
  const tool = toolOf(focused) ?? (focused === document.body ? anew : null); // a pressed button is held and loses it
  const title = () => one("[data-title]", rowOf(tool) ?? list);
  const fresh = one("[data-list]", page);
  for (const row of all("[data-tool-id]", fresh)) keepOrHold(row, anew);
  list.replaceChildren(...[...fresh.children].map((child) => document.adoptNode(child)));
  if (tool) (list.contains(focused) ? focused : title())?.focus();
  showBadge("tools", all('[data-state="new"], [data-state="changed"]', list).length);
}

/** Put the row that is shown in the place of a fresh one, unless that says something new that may be shown. */
function keepOrHold(row, anew) {
  const shown = rowOf(row.dataset.toolId);
  if (!shown) return allowButtons(row);
  const isOther = shown.dataset.hash !== row.dataset.hash;
  if (isOther && row.dataset.toolId !== anew) {
    showStale(shown);
    return row.replaceWith(shown);
  }
  if (shown.dataset.stamp === row.dataset.stamp) return row.replaceWith(shown);
  if (!isOther) one("[data-parameters]", row).open = one("[data-parameters]", shown).open;
  allowButtons(row, "Read it first.");
  return setTimeout(() => allowButtons(row), READ_MS);
}

function showStale(row) {
  if ("stale" in row.dataset) return;
  row.dataset.stale = "";
  const button = h("button", { type: "button", class: "link", click: () => refresh(row.dataset.toolId) }, "Show what it says now");
  one("[data-note]", row).replaceChildren(`${CHANGED} `, button);
}

const allowButtons = (root, barredBecause = "") => all("[data-judge]", root).forEach((button) => allow(button, barredBecause));

startFrame();
allowButtons(list);
name.value = localStorage.getItem(MY_NAME) ?? "";
name.addEventListener("change", () => localStorage.setItem(MY_NAME, name.value.trim()));
list.addEventListener("click", (event) => {
  const button = event.target.closest("[data-judge]");
  if (button) onceAtATime(button, () => judge(button));
});
live.follow({ topic: "tools" }, list.dataset.liveCursor, {
  apply: (events) => {
    if (events.length) refreshSoon();
    return events.length;
  },
  resync: refresh,
});
