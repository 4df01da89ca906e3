// One session: its state, what may be done to it, and its steps as they are stored.

import { live, startFrame } from "./banner.js";
import { ask, firstLine, isEmpty, isFinal, one, onceAtATime, pageData, pretty, say, sessionPath, setText, stateOf } from "./dom.js";
import { Controls } from "./controls.js";
import { Head } from "./head.js";
import { Newest, Sequence } from "./live.js";
import { Questions } from "./questions.js";
import { stepsOf } from "./steps.js";
import { isPiece, LiveText } from "./stream.js";
import { clock } from "./time.js";
import { Timeline } from "./timeline.js";
import { Waterfall } from "./waterfall.js";

const record = one("[data-session]");
const sessionId = record.dataset.sessionId;
const api = `/api/sessions/${encodeURIComponent(sessionId)}`;
const draftKey = `stepwell.draft.session.${sessionId}`;
const words = one("#say");
const newest = new Newest();
const actions = new Map();
const busy = one("[data-when-busy]");
const questions = new Questions(one("[data-questions]"), sessionId, () => showAsked());
const controls = new Controls({ api, record, error: one("[data-dock-error]"), onSent: note, onShown: showDock });
const head = new Head(record);
let session = pageData("session");

// --- steps --------------------------------------------------------------------------------------------------------------

const fetchSteps = (query) => stepsOf(sessionId, query);

/** Begin a new session with what this one had after a step, and go there. */
async function fork(iteration, key, button, error) {
  error.textContent = "";
  await onceAtATime(button, async () => {
    try {
      const { session_id } = await ask("POST", `${api}/fork`, { iteration, idempotency_key: key });
      location.assign(sessionPath(session_id));
    } catch (problem) {
      error.textContent = `Fork: ${problem.message}`;
    }
  });
}

const liveText = new LiveText(one("[data-running-text]"));
const timeline = new Timeline({
  scroll: one("[data-scroll]"),
  list: one("[data-steps]"),
  pill: one("[data-follow]"),
  earlier: one("[data-earlier]"),
  empty: one("[data-empty]"),
  running: liveText,
  fetchSteps,
  fork,
});

const waterfall = new Waterfall(one("[data-trace]"), one("[data-timeline]"), one("[data-trace-toggle]"), api);

const sequence = new Sequence(timeline.last + 1, {
  fetchRange: (from, to) => fetchSteps({ min_iteration: from, max_iteration: to, order: "asc" }),
  deliver: (steps, how) => {
    timeline.add(steps, how);
    showCount();
  },
});

function showCount() {
  const count = Math.max(sequence.next, session.step_token ? session.iteration + 1 : 0);
  const place = one("[data-step-count]");
  place.dataset.stepCount = String(count);
  setText(place, String(count));
}

// --- the session itself ---------------------------------------------------------------------------------------------------

function showSession(next) {
  const before = session;
  session = { ...session, ...next };
  const { word } = stateOf(session);
  head.show(session);
  questions.follow(session);
  showReason();
  showPanels();
  showCount();
  document.title = `${word} · ${session.name} · Stepwell`;
  if (isFinal(session.status) && !liveText.isEmpty) timeline.showRunning(() => liveText.clear());
  if (before.status !== session.status) say(`${session.name} is ${word}`);
  controls.follow(session);
}

/** Why it is not running, in words. */
function reasonText() {
  if (session.status === "error" || session.status === "running") return "";
  const wake = session.status === "waiting" && session.wake_at ? `Sleeps until ${clock(session.wake_at)}.` : "";
  const standard = { waiting: wake || "Waits for input.", paused: "Paused. Resume carries on at the next step.", created: "Waits for a worker to begin it." };
  const saysMore = session.reason && session.reason.toLowerCase() !== session.status;
  return saysMore ? session.reason : (standard[session.status] ?? session.reason ?? "");
}

function showReason() {
  const text = questions.asks(session.reason) ? "" : reasonText(); // the question below says it
  const place = one("[data-reason]");
  place.hidden = !text;
  setText(place, text);
}

function showPanels() {
  panel("error", session.last_error);
  panel("result", isFinal(session.status) ? session.result : null);
}

function panel(kind, value) {
  one(`[data-${kind}]`).hidden = isEmpty(value);
  if (isEmpty(value)) return;
  setText(one(`[data-${kind}-line]`), firstLine(value));
  setText(one(`[data-${kind}-all]`), pretty(value));
  const isWhole = typeof value === "string" && value.trim() === firstLine(value);
  one(`[data-${kind}] details`).hidden = isWhole;
}

// --- controls ---------------------------------------------------------------------------------------------------------------

function showDock() {
  busy.disabled = isFinal(session.status);
  words.disabled = isFinal(session.status);
  words.placeholder = isFinal(session.status) ? "The session has ended" : "Say something to this session";
  showAsked();
}

/** A session that asks a question wants its answer, not an input. */
function showAsked() {
  one("[data-dock]").classList.toggle("wanted", session.status === "waiting" && !session.wake_at && !questions.isAsking);
  showReason();
}

async function send(kind) {
  const text = words.value.trim();
  if (!text) {
    words.focus();
    return;
  }
  if (await controls.post(kind, kind === "interrupt" ? { guidance: text } : { text, when_busy: busy.value })) {
    words.value = "";
    saveDraft();
    words.dispatchEvent(new Event("input"));
  }
}

// --- what was said but not read yet -------------------------------------------------------------------------------------------

function note(id, kind) {
  if (!actions.has(id)) actions.set(id, { kind: `agent_${kind}`, status: "pending" });
  showUnread();
}

function noteAction(action) {
  if (!newest.accepts(action.id, action.processed_at)) return;
  actions.set(action.id, action);
  showUnread();
}

function showUnread() {
  const isOpen = ({ kind, status }) => ["agent_input", "agent_interrupt"].includes(kind) && ["pending", "claimed"].includes(status);
  const open = [...actions.values()].filter(isOpen).length;
  setText(one("[data-dock-note]"), open ? `${open} ${open === 1 ? "message" : "messages"} stored and not answered yet` : "");
}

const saveDraft = () => {
  if (words.value) localStorage.setItem(draftKey, words.value);
  else localStorage.removeItem(draftKey);
};

// --- live -------------------------------------------------------------------------------------------------------------------

function apply(events, how) {
  const steps = events.filter(({ event }) => event === "step").map(({ data }) => data);
  let fresh = steps.length ? sequence.offer(steps, how) : 0;
  const states = events.filter(({ event, data }) => event === "state" && data.session_id === sessionId);
  for (const { data } of states) fresh += newest.accepts(sessionId, data.updated_at) ? 1 : 0;
  const latest = states.map(({ data }) => data).filter((data) => data.updated_at >= (session.updated_at ?? "")).at(-1);
  if (latest) showSession(latest);
  for (const { event, data } of events) {
    if (event === "action") noteAction(data);
    if (event === "token" && !isPiece(data)) timeline.showToken(data, sequence.next);
  }
  showPieces(events.filter(({ event, data }) => event === "token" && isPiece(data)).map(({ data }) => data));
  waterfall.refresh();
  return fresh;
}

/** What the running step has said since; nothing of steps that are stored. */
function showPieces(pieces) {
  if (pieces.length) timeline.showRunning(() => pieces.forEach((piece) => liveText.take(piece)));
}

/** The server cannot continue from our cursor: read the session, and what came after our last step. */
async function resync() {
  showSession(await ask("GET", api));
  sequence.offer(await fetchSteps({ min_iteration: sequence.next, order: "asc" }), { isReplay: true });
  waterfall.refresh();
}

startFrame();
newest.accepts(sessionId, session.updated_at);
showSession({});
waterfall.start(location.hash);
timeline.start(Number(/^#step-(\d+)$/.exec(location.hash)?.[1] ?? Number.NaN));

liveText.drop(timeline.last);
showPieces(pageData("live-text"));

words.value = localStorage.getItem(draftKey) ?? "";
words.dispatchEvent(new Event("input"));
words.addEventListener("input", saveDraft);
words.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    if (!controls.button("input").disabled) send("input");
  }
});
one("[data-dock]").addEventListener("submit", (event) => {
  event.preventDefault();
  send("input");
});
controls.button("interrupt").addEventListener("click", () => send("interrupt"));
controls.start();

live.follow({ session_id: sessionId }, record.dataset.liveCursor, { apply, resync });
