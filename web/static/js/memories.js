// Memories: the list follows what agents keep, and each one, or all of a scope, is deleted after a question.

import { live, startFrame } from "./banner.js";
import { all, allow, ask, growList, one, onceAtATime, say, setText } from "./dom.js";

const REFRESH_MS = 2_000;
const WHAT_CHARS = 300;

const list = one("[data-list]");
const rows = one("[data-rows]");
const dialog = one("[data-forget-dialog]");
const form = one("[data-forget-form]");
const submit = one("[data-submit]", form);
const newPill = one("[data-new]");
const forgetAll = one("[data-forget-all]");
const gone = new Set(); // what was deleted here does not come back with an answer that was on its way
let held = []; // new rows that wait for a click, so that nothing moves under the pointer

const pathOf = (id) => `/api/memories/${encodeURIComponent(id)}`;
const idOf = (row) => row.dataset.memoryId;
/** A later page, or one of the best answers to a question, has no place where new rows belong. */
const isFollowed = !new URLSearchParams(location.search).has("cursor") && !("ranked" in list.dataset);

// --- deleting ------------------------------------------------------------------------------------------------------------

let forget = async () => {};

function askFirst(title, what, work) {
  setText(one("[data-title]", dialog), title);
  setText(one("[data-what]", dialog), what);
  setText(one("[data-form-error]", dialog), "");
  forget = work;
  dialog.showModal();
  one("[data-keep]", dialog).focus(); // a stray Enter keeps it
}

async function forgetNow() {
  try {
    const answer = await forget();
    dialog.close();
    say(answer.deleted === 1 ? "Deleted" : `${answer.deleted} deleted`);
  } catch (problem) {
    setText(one("[data-form-error]", dialog), problem.message);
  }
}

async function forgetRow(row) {
  let answer;
  try {
    answer = await ask("DELETE", pathOf(idOf(row)));
  } catch (problem) {
    if (problem.status !== 404) throw problem;
    answer = { deleted: 1 }; // somebody else was first: it is gone, which is what was asked for
  }
  drop(row);
  return answer;
}

async function forgetScope(query) {
  const answer = await ask("DELETE", `/api/memories?${query}`);
  for (const row of [...rows.children]) drop(row);
  one("[data-more]")?.remove();
  forgetAll.remove();
  return answer;
}

function drop(row) {
  const next = row.nextElementSibling ?? row.previousElementSibling;
  gone.add(idOf(row));
  row.remove();
  showEmpty();
  (next ? one("[data-forget]", next) : one("#main"))?.focus();
}

function showEmpty() {
  const isEmpty = rows.children.length === 0;
  rows.hidden = isEmpty;
  one("[data-empty]", list).hidden = !isEmpty;
}

// --- what agents keep meanwhile --------------------------------------------------------------------------------------------

let timer = null;

function refreshSoon() {
  timer ??= setTimeout(refresh, REFRESH_MS);
}

/** Take the server's first page: what is new comes on top, what somebody else deleted goes. */
async function refresh() {
  clearTimeout(timer);
  timer = null;
  if (!isFollowed) return;
  let page;
  try {
    const answer = await fetch(location.pathname + location.search);
    if (!answer.ok) return;
    page = new DOMParser().parseFromString(await answer.text(), "text/html");
  } catch {
    return; // the next change asks again
  }
  const fresh = all("[data-rows] > li", page).filter((row) => !gone.has(idOf(row)));
  dropDeleted(new Set(fresh.map(idOf)), Boolean(one("[data-more]", page)));
  const known = new Set([...rows.children].map(idOf));
  held = fresh.filter((row) => !known.has(idOf(row)));
  if (!rows.matches(":hover") && !rows.contains(document.activeElement) && scrollY < 40) showHeld();
  else showPill();
  showEmpty();
}

/** Rows that the first page lacks are deleted, down to where that page ends. */
function dropDeleted(fresh, hasMore) {
  const here = [...rows.children];
  const end = hasMore ? here.findLastIndex((row) => fresh.has(idOf(row))) : here.length - 1;
  for (const row of here.slice(0, end + 1)) {
    if (!fresh.has(idOf(row)) && !row.contains(document.activeElement)) row.remove();
  }
}

function showPill() {
  newPill.hidden = held.length === 0;
  setText(newPill, `${held.length} new ↑`);
}

function showHeld() {
  rows.prepend(...held.map((row) => document.adoptNode(row)));
  held = [];
  allowButtons();
  showEmpty();
  showPill();
}

async function showWhole(button) {
  const row = button.closest("li");
  try {
    setText(one("[data-text]", row), (await ask("GET", pathOf(idOf(row)))).text);
    button.remove();
  } catch (problem) {
    setText(button, `${problem.message} Try again`);
  }
}

const allowButtons = () => all("[data-forget], [data-forget-all]").forEach((button) => allow(button));

startFrame();
allowButtons();
allow(submit);
rows.addEventListener("click", (event) => {
  const button = event.target.closest("[data-forget]");
  const whole = event.target.closest("[data-whole]");
  if (whole) onceAtATime(whole, () => showWhole(whole));
  if (!button) return;
  const row = button.closest("li");
  askFirst(`Delete this ${one(".kind", row).textContent}?`, one("[data-text]", row).textContent.slice(0, WHAT_CHARS), () => forgetRow(row));
});
forgetAll?.addEventListener("click", () => {
  const { query, words } = forgetAll.dataset;
  askFirst("Delete all of these memories?", `Every memory of ${words}, also those that this page does not show.`, () => forgetScope(query));
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  onceAtATime(submit, forgetNow);
});
one("[data-keep]", dialog).addEventListener("click", () => dialog.close());
dialog.addEventListener("click", (event) => {
  if (event.target === dialog) dialog.close();
});
newPill.addEventListener("click", () => {
  showHeld();
  scrollTo({ top: 0 });
});
growList(rows, allowButtons);
live.follow({ topic: "sessions" }, list.dataset.liveCursor, {
  apply: (events) => {
    if (events.length) refreshSoon();
    return events.length;
  },
  resync: refresh,
});
