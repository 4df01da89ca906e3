// The list of sessions: rows change in place, new ones come on top, counts are the server's.

import { live, showBadge, startFrame } from "./banner.js";
import { all, allow, ask, firstLine, growList, h, isEmpty, isFinal, newKey, one, onceAtATime, pageData, sessionPath, setText, stateMark, stateOf } from "./dom.js";
import { Newest } from "./live.js";
import { ageOf, elapsed } from "./time.js";

const MAX_ROWS = 150;
const COUNT_EVERY_MS = 1_000;

const list = one("[data-list]");
const rows = one("[data-rows]");
const newPill = one("[data-new]");
const newest = new Newest();
const held = new Map(); // sessions that wait for a click, so that nothing moves under the pointer
const isFirstPage = !new URLSearchParams(location.search).has("cursor");
const shownStatuses = one(`[data-tab="${list.dataset.tab}"]`, one(".tabs")).dataset.statuses.split(" ").filter(Boolean);

const stepCount = (session) => (session.step_token && session.iteration !== null ? session.iteration + 1 : 0);

function stepsText(session) {
  const count = stepCount(session);
  return session.max_steps ? `${count} / ${session.max_steps} steps` : `${count} ${count === 1 ? "step" : "steps"}`;
}

/** The line under which people recognise a session; undefined when this event knows none. */
function lineOf(session) {
  if (session.status === "error") return firstLine(session.last_error);
  const said = session.last_text ?? (isFinal(session.status) && !isEmpty(session.result) ? session.result : null);
  return said === null || said === undefined ? undefined : firstLine(said);
}

function rowOf(session) {
  const row = h("li", { class: "row fresh", "data-session-id": session.session_id, "data-status": session.status, "data-updated": session.updated_at });
  row.append(
    stateMark(session),
    h("a", { class: "name", href: sessionPath(session.session_id), title: session.session_id }, session.name),
    h("span", { class: session.status === "error" ? "line t-failed" : "line" }, lineOf(session) ?? firstLine(session.reason || session.task)),
    h("span", { class: "who" }, session.agent_id),
    h("span", { class: "num steps" }, stepsText(session)),
    ageOf(session.created_at, "num age"),
    h("span", { class: "num took" }, ""),
  );
  showTook(row, session);
  return row;
}

function showTook(row, session) {
  const took = one(".took", row);
  took.dataset.since = session.created_at;
  if (isFinal(session.status)) took.dataset.until = session.updated_at;
  else delete took.dataset.until;
  // a running clock is moved by `tick` alone, or it would be ahead of the age beside it
  if (took.dataset.until || !took.textContent) setText(took, elapsed(session.created_at, took.dataset.until));
}

function updateRow(row, session) {
  const hasChanged = row.dataset.status !== session.status || one(".state .word", row).textContent !== stateOf(session).word;
  row.dataset.status = session.status;
  row.dataset.updated = session.updated_at;
  if (hasChanged) one(".state", row).replaceWith(stateMark(session));
  const line = one(".line", row);
  line.classList.toggle("t-failed", session.status === "error");
  setText(line, lineOf(session) ?? line.textContent); // an event brings no text; `refresh` does
  setText(one(".steps", row), stepsText(session));
  showTook(row, session);
}

const rowFor = (id) => one(`[data-session-id="${CSS.escape(id)}"]`, rows);

function apply(events) {
  const latest = new Map();
  for (const { event, data } of events) {
    if (event === "state" && newest.accepts(data.session_id, data.updated_at)) latest.set(data.session_id, data);
  }
  for (const session of latest.values()) {
    const row = rowFor(session.session_id);
    if (row) updateRow(row, session);
    else if (isFirstPage && fits(session)) hold(session);
  }
  if (latest.size) countSoon();
  return latest.size;
}

const fits = (session) => !shownStatuses.length || shownStatuses.includes(session.status);

function hold(session) {
  held.set(session.session_id, session);
  if (!rows.matches(":hover") && scrollY < 40) showHeld();
  else showPill();
}

function showPill() {
  newPill.hidden = held.size === 0;
  setText(newPill, `${held.size} new ↑`);
}

function showHeld() {
  const sessions = [...held.values()].sort((a, b) => (a.created_at < b.created_at ? -1 : 1));
  held.clear();
  for (const session of sessions) rows.prepend(rowOf(session));
  while (rows.children.length > MAX_ROWS) rows.lastElementChild.remove();
  rows.hidden = false;
  one("[data-empty]").hidden = true;
  showPill();
}

let countTimer = null;

function countSoon() {
  countTimer ??= setTimeout(refresh, COUNT_EVERY_MS);
}

/** Read again what only the server knows: how many there are, and what each session said last. */
async function refresh() {
  countTimer = null;
  try {
    const { items, counts } = await ask("GET", `/sessions.json${location.search}`);
    showCounts(counts);
    for (const session of items) {
      const row = rowFor(session.session_id);
      const said = lineOf(session);
      if (row && said && row.dataset.updated <= session.updated_at) setText(one(".line", row), said);
    }
  } catch {
    // the next change asks again
  }
}

function showCounts(counts) {
  showBadge("sessions", counts.error);
  const everything = Object.values(counts).reduce((sum, number) => sum + number, 0);
  for (const tab of all(".tabs a")) {
    const statuses = tab.dataset.statuses.split(" ").filter(Boolean);
    const number = statuses.length ? statuses.reduce((sum, status) => sum + (counts[status] ?? 0), 0) : everything;
    const place = one("[data-count]", tab);
    setText(place, String(number));
    place.classList.toggle("zero", number === 0);
    if (tab.dataset.tab === "running") document.title = `${number ? `${number} running · ` : ""}Sessions · Stepwell`;
  }
}

/** The server cannot continue from our cursor: read the newest rows once. */
async function resync() {
  const { items, counts } = await ask("GET", "/api/sessions?limit=50");
  showCounts(counts);
  apply(items.toReversed().map((data) => ({ event: "state", data })));
}

function wireStart() {
  const sheet = one("[data-start-sheet]");
  let isBuilt = false;
  const button = one("[data-start]");
  const thread = new URLSearchParams(location.search).get("thread");
  const open = async () => {
    const { buildStartSheet } = await import("./start.js");
    if (!isBuilt) buildStartSheet(sheet, pageData("monikers"), thread ? { conversation_id: thread } : {});
    isBuilt = true;
    allow(one("[data-submit]", sheet));
    if (!sheet.open) sheet.showModal();
  };
  allow(button);
  button.addEventListener("click", open);
  if (thread) open(); // a thread asked for an agent of its own
  one("[data-close]", sheet).addEventListener("click", () => sheet.close());
  sheet.addEventListener("click", (event) => {
    if (event.target === sheet) sheet.close();
  });
}

function wireDemo() {
  const button = one("[data-demo]");
  if (!button) return;
  allow(button);
  const key = newKey();
  const error = one("[data-demo-error]");
  button.addEventListener("click", () =>
    onceAtATime(button, async () => {
      error.textContent = "";
      try {
        const { startAgent } = await import("./start.js");
        await startAgent({ ...JSON.parse(button.dataset.demo), idempotency_key: key }, () => {
          error.textContent = "Accepted and stored. It begins as soon as a worker runs.";
        });
      } catch (problem) {
        error.textContent = problem.message;
      }
    }),
  );
}

startFrame();
for (const row of all("[data-session-id]", rows)) newest.accepts(row.dataset.sessionId, row.dataset.updated);
newPill.addEventListener("click", showHeld);
growList(rows);
wireStart();
wireDemo();
live.follow({ topic: "sessions" }, list.dataset.liveCursor, { apply, resync });
