// The inbox: every open question, what was asked first at the top, answered by mouse or keyboard as they come and go.

import { live, showBadge, startFrame } from "./banner.js";
import { all, ask, one, pageData, say, setText } from "./dom.js";
import { Newest } from "./live.js";
import { press, questionCard } from "./question.js";
import { doubtCard } from "./questions.js";

const list = one("[data-list]");
const rows = one("[data-rows]");
const empty = one("[data-empty]");
const newest = new Newest();
const KEYS = { a: "approve", r: "reject", E: "edit" };
let hasMore = Boolean(list.dataset.more);

const place = ({ dataset }) => `${dataset.askedAt} ${dataset.approvalId}`;
const cardFor = (id) => one(`[data-approval-id="${CSS.escape(id)}"]`, rows);

function cardOf(item) {
  const card = item.kind === "unsafe_call" ? doubtCard(item) : questionCard(item);
  card.dataset.askedAt = item.asked_at;
  card.dataset.sessionId = item.session_id;
  return card;
}

/** Put a question where it belongs; answers whether it is new. */
function put(item) {
  if (cardFor(item.approval_id)) return false;
  const card = cardOf(item);
  const after = [...rows.children].find((other) => place(other) > place(card));
  if (!after && hasMore) return false; // it is on a later page
  rows.insertBefore(card, after ?? null);
  return true;
}

/** The questions of one session as they are now. */
function showSession(sessionId, items) {
  const wanted = new Set(items.map(({ approval_id: id }) => id));
  for (const card of all(`[data-session-id="${CSS.escape(sessionId)}"]`, rows)) if (!wanted.has(card.dataset.approvalId)) remove(card);
  return items.filter(put).length;
}

function remove(card) {
  const hadFocus = card.contains(document.activeElement);
  const next = card.nextElementSibling ?? card.previousElementSibling;
  card.remove();
  if (hadFocus) (next ? one("a.name, button", next) : one("#main"))?.focus();
}

function showCount() {
  const count = rows.children.length;
  rows.hidden = count === 0;
  empty.hidden = count > 0;
  if (!hasMore) showBadge("approvals", count);
  setText(one("[data-count]"), count ? `${count}${hasMore ? "+" : ""} open` : "");
  document.title = `${count ? `${count}${hasMore ? "+" : ""} · ` : ""}Approvals · Stepwell`;
}

function apply(events) {
  let fresh = 0;
  for (const { event, data } of events) {
    if (event === "approval" && newest.accepts(data.session_id, data.updated_at)) fresh += showSession(data.session_id, data.items);
  }
  showCount();
  if (fresh) say(fresh === 1 ? "A new question" : `${fresh} new questions`);
  return fresh;
}

/** Read the list anew: the server cannot continue from our cursor. */
async function resync() {
  const { items, next_cursor: more } = await ask("GET", "/api/approvals?limit=50");
  hasMore = Boolean(more);
  const wanted = new Set(items.map(({ approval_id: id }) => id));
  for (const card of [...rows.children]) if (!wanted.has(card.dataset.approvalId)) remove(card);
  items.forEach(put);
  showCount();
}

function onKey(event) {
  const isTyping = event.target instanceof HTMLElement && event.target.matches("input, textarea, select");
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey || one("dialog[open]") || !(event.key in KEYS)) return;
  const card = document.activeElement?.closest("[data-approval-id]");
  event.preventDefault();
  if (card) press(card, KEYS[event.key]);
  else if (rows.firstElementChild) one("a.name, button", rows.firstElementChild)?.focus(); // nothing is answered unseen
}

startFrame();
rows.replaceChildren(...pageData("approvals").map(cardOf));
showCount();
document.addEventListener("keydown", onKey);
one("[data-later]")?.addEventListener("click", resyncAll);
live.follow({ topic: "approvals" }, list.dataset.liveCursor, { apply, resync });

/** Show what did not fit on the first page. */
async function resyncAll(event) {
  event.preventDefault();
  const button = event.currentTarget;
  try {
    let cursor = list.dataset.more;
    while (cursor) {
      const page = await ask("GET", `/api/approvals?limit=200&cursor=${encodeURIComponent(cursor)}`);
      hasMore = Boolean(page.next_cursor);
      for (const item of page.items) if (!cardFor(item.approval_id)) rows.append(cardOf(item));
      cursor = page.next_cursor;
    }
    button.remove();
    showCount();
  } catch (problem) {
    setText(button, `${problem.message} Try again`);
  }
}
