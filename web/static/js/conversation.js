// One conversation: who said what, who takes part, and a place to write.

import { live, startFrame } from "./banner.js";
import { all, allow, ask, h, icon, isFinal, newKey, one, onceAtATime, pageData, sessionName, sessionPath, setText, stateMark } from "./dom.js";
import { Newest } from "./live.js";
import { isPiece } from "./stream.js";
import { Speakers } from "./speakers.js";
import { ageOf } from "./time.js";

const NEAR_PX = 60;
const PAGE = 100;
const MAX_MESSAGES = 200;

const thread = one("[data-conversation]");
const conversationId = thread.dataset.conversationId;
const api = `/api/conversations/${encodeURIComponent(conversationId)}`;
const draftKey = `stepwell.draft.conversation.${conversationId}`;
const scroll = one("[data-scroll]");
const list = one("[data-messages]");
const pill = one("[data-follow]");
const area = one("#post");
const newest = new Newest();
const known = new Set(all("[data-message-id]", list).map((item) => item.dataset.messageId));
const speakers = new Speakers(one("[data-live-texts]"), pageData("stored"));
let unseen = 0;
let olderCursor = null;

// --- messages -------------------------------------------------------------------------------------------------------------

function byLine(message) {
  const speaker = message.user_id || message.agent_id || message.sender_type;
  const line = h("p", { class: "by" }, h("strong", {}, speaker), h("span", { class: "role" }, message.sender_type));
  if (message.session_id && message.sender_type === "agent") {
    const hasStep = message.iteration !== null && message.iteration !== undefined;
    const href = sessionPath(message.session_id) + (hasStep ? `#step-${message.iteration}` : "");
    line.append(h("a", { href }, sessionName(message.session_id) + (hasStep ? `, step ${message.iteration}` : "")));
  }
  if (message.event_type === "error") line.append(h("span", { class: "t-failed" }, "error"));
  line.append(message.created_at ? ageOf(message.created_at, "num age") : h("span", { class: "num age sending" }, icon("clock"), "sending"));
  return line;
}

function itemOf(message) {
  const item = h("li", { class: `message from-${message.sender_type} fresh`, "data-message-id": message.message_id, "data-created": message.created_at });
  if (message.event_type === "error") item.classList.add("failed");
  if (message.session_id) Object.assign(item.dataset, { sessionId: message.session_id, iteration: message.iteration });
  if (message.event_type === "rollback") item.dataset.takesBack = (message.data?.rolled_back ?? []).join(" ") || "0 -1";
  item.append(byLine(message), h("p", { class: message.text ? "text" : "text wordless" }, message.text || "A step without words"));
  return item;
}

/** Mark what rollbacks have taken back: the messages of a session's steps from one to another. */
function markTakenBack() {
  for (const rollback of all("[data-takes-back]", list)) {
    const [first, last] = rollback.dataset.takesBack.split(" ").map(Number);
    for (const item of all("[data-iteration]", list)) {
      const iteration = Number(item.dataset.iteration);
      const isMeant = item.dataset.sessionId === rollback.dataset.sessionId && iteration >= first && iteration <= last;
      if (!isMeant || item.classList.contains("taken-back")) continue;
      item.classList.add("taken-back");
      one(".age", item).before(h("span", { class: "tag" }, "taken back"));
    }
  }
}

/** Show a message once. One of our own that is on its way becomes the stored one in place. */
function add(message) {
  if (known.has(message.message_id)) return false;
  known.add(message.message_id);
  const own = message.sender_type === "user" ? all(".pending", list).find((item) => one(".text", item).textContent === message.text) : null;
  if (own) own.replaceWith(itemOf(message));
  else place(itemOf(message));
  return true;
}

/** Put an item where its time says; pending ones stay at the end. */
function place(item) {
  let before = list.lastElementChild;
  const isLater = (other) => other.classList.contains("pending") || other.dataset.created > item.dataset.created;
  while (before && isLater(before)) before = before.previousElementSibling;
  if (before) before.after(item);
  else list.prepend(item);
}

const isAtEnd = () => scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < NEAR_PX;

function toEnd() {
  scroll.scrollTop = scroll.scrollHeight;
  unseen = 0;
  showPill();
}

function showPill() {
  pill.hidden = unseen === 0;
  setText(pill, `${unseen} new ↓`);
}

/** Run a change of the list without stealing the reader's place. */
function keepingPlace(change) {
  const wasAtEnd = isAtEnd();
  const fresh = change();
  markTakenBack();
  one("[data-empty]").hidden = list.children.length > 0;
  if (!fresh && wasAtEnd) scroll.scrollTop = scroll.scrollHeight; // a text may have grown
  if (!fresh) return fresh;
  if (wasAtEnd) {
    while (list.children.length > MAX_MESSAGES) {
      list.firstElementChild.remove();
      one("[data-earlier]").hidden = false;
      olderCursor = null;
    }
    toEnd();
  } else {
    unseen += fresh;
    showPill();
  }
  return fresh;
}

function apply(events, how) {
  return keepingPlace(() => {
    const messages = events.filter(({ event }) => event === "message").map(({ data }) => data);
    const unknown = messages.filter((message) => !known.has(message.message_id));
    if (how.isAfterAway && unknown.length) {
      const words = `${unknown.length} ${unknown.length === 1 ? "message" : "messages"} while you were away`;
      list.append(h("li", { class: "divider", "data-created": unknown[0].created_at }, h("span", {}, words)));
    }
    const fresh = messages.filter(add).length;
    for (const message of messages) if (message.session_id) speakers.drop(message.session_id, message.iteration);
    for (const { event, data } of events) if (event === "state") showParticipant(data);
    for (const { event, data } of events) if (event === "token" && isPiece(data)) speakers.take(data);
    return fresh;
  });
}

async function resync() {
  const { items } = await ask("GET", `${api}/messages?order=desc&limit=${PAGE}`);
  keepingPlace(() => items.toReversed().filter(add).length);
}

async function showEarlier(button) {
  const shown = known.size;
  let tries = 0;
  while (known.size === shown && tries < 20) {
    const search = new URLSearchParams({ order: "desc", limit: String(PAGE), ...(olderCursor ? { cursor: olderCursor } : {}) });
    const { items, next_cursor } = await ask("GET", `${api}/messages?${search}`);
    const height = scroll.scrollHeight;
    const older = items.filter((message) => !one(`[data-message-id="${CSS.escape(message.message_id)}"]`, list));
    older.forEach((message) => {
      known.add(message.message_id);
      place(itemOf(message));
    });
    scroll.scrollTop += scroll.scrollHeight - height;
    olderCursor = next_cursor;
    button.hidden = !next_cursor;
    tries += 1;
    if (!next_cursor || older.length) break;
  }
}

// --- writing --------------------------------------------------------------------------------------------------------------

const saveDraft = () => {
  if (area.value) localStorage.setItem(draftKey, area.value);
  else localStorage.removeItem(draftKey);
};

function clearArea() {
  area.value = "";
  saveDraft();
  area.dispatchEvent(new Event("input"));
}

function post() {
  const text = area.value.trim();
  const error = one("[data-post-error]");
  error.textContent = "";
  if (!text) return area.focus(); // also the second half of a double click
  const request = { text, as: one("[data-as]").value, when_busy: one("[data-when-busy]").value, idempotency_key: newKey() };
  const item = itemOf({ sender_type: "user", user_id: "you", text });
  item.classList.add("pending");
  list.append(item);
  one("[data-empty]").hidden = true;
  toEnd();
  clearArea();
  return send(item, request);
}

/** Send a message that is already shown. The same key makes trying again safe. */
async function send(item, request) {
  try {
    const { message } = await ask("POST", `${api}/messages`, request);
    if (!item.isConnected) return; // its event was faster
    if (known.has(message.message_id)) {
      item.remove();
      return;
    }
    known.add(message.message_id);
    item.replaceWith(itemOf(message));
  } catch (problem) {
    offerAgain(item, request, problem);
  }
}

function offerAgain(item, request, problem) {
  item.classList.add("unsent");
  const again = h("button", { type: "button", class: "link" }, "Send again");
  const edit = h("button", { type: "button", class: "link" }, "Edit");
  const line = h("p", { class: "field-error" }, `Not sent. ${problem.message} `, again, " ", edit);
  allow(again);
  again.addEventListener("click", () => {
    line.remove();
    item.classList.remove("unsent");
    send(item, request);
  });
  edit.addEventListener("click", () => {
    item.remove();
    area.value = request.text;
    area.dispatchEvent(new Event("input"));
    area.focus();
  });
  item.append(line);
}

// --- participants ---------------------------------------------------------------------------------------------------------

function showParticipant(session) {
  if (!newest.accepts(session.session_id, session.updated_at)) return;
  if (isFinal(session.status)) speakers.clear(session.session_id);
  speakers.drop(session.session_id, session.iteration);
  const entry = one(`[data-people] [data-session-id="${CSS.escape(session.session_id)}"]`);
  if (!entry) return;
  one(".state", entry)?.remove();
  one("a", entry).after(stateMark(session));
}

function personOf(participant) {
  const { participant_id, session_id, user_id, agent_id, role, delivery } = participant;
  const entry = h("li", { "data-participant-id": participant_id, "data-session-id": session_id || null });
  const who = session_id ? h("a", { href: sessionPath(session_id), title: session_id }, sessionName(session_id)) : h("span", {}, user_id || agent_id);
  const words = (role || (session_id ? "session" : "person")) + (delivery === "pull" && session_id ? ", reads when it likes" : "");
  entry.append(who, h("span", { class: "muted" }, words));
  return entry;
}

async function addParticipant(form) {
  const input = one("#add-id");
  const error = one("[data-field-error]", form);
  const id = input.value.trim();
  error.textContent = id ? "" : "Whose? Paste an id.";
  if (!id) return;
  try {
    const participant = await ask("POST", `${api}/participants`, { [one("#add-kind").value]: id });
    if (!one(`[data-participant-id="${CSS.escape(participant.participant_id)}"]`)) one("[data-people]").append(personOf(participant));
    one("[data-nobody]").hidden = true;
    input.value = "";
  } catch (problem) {
    error.textContent = problem.errors[0]?.message ?? problem.message;
  }
}

// --- live -----------------------------------------------------------------------------------------------------------------

startFrame();
const postButton = one("[data-post]");
const addForm = one("[data-add]");
const addButton = one("[data-submit]", addForm);
const earlier = one("[data-earlier]");
allow(postButton);
allow(addButton);

area.value = localStorage.getItem(draftKey) ?? "";
area.dispatchEvent(new Event("input"));
area.addEventListener("input", saveDraft);
area.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    if (!postButton.disabled) post();
  }
});
one("[data-composer]").addEventListener("submit", (event) => {
  event.preventDefault();
  post();
});
addForm.addEventListener("submit", (event) => {
  event.preventDefault();
  onceAtATime(addButton, () => addParticipant(addForm));
});
pill.addEventListener("click", toEnd);
if (matchMedia("(max-width: 860px)").matches) one("[data-people-fold]").open = false;
scroll.addEventListener("follow", toEnd);
scroll.addEventListener("scroll", () => isAtEnd() && unseen && toEnd(), { passive: true });
earlier.addEventListener("click", () => onceAtATime(earlier, () => showEarlier(earlier)));
pageData("live-text").forEach((piece) => speakers.take(piece));
toEnd();
live.follow({ conversation_id: conversationId }, thread.dataset.liveCursor, { apply, resync });
