// One session: its state, what may be done to it, and its steps as they are stored.

import { live, startFrame } from "./banner.js";
import { allow, ask, doUnlessUndone, firstLine, h, isEmpty, isFinal, icon, one, onceAtATime, pageData, pretty, say, sessionPath, setText, stateOf } from "./dom.js";
import { Newest, Sequence } from "./live.js";
import { Questions } from "./questions.js";
import { isPiece, LiveText } from "./stream.js";
import { clock, elapsed } from "./time.js";
import { Timeline } from "./timeline.js";
import { costOf, tokensOf } from "./words.js";
import { Waterfall } from "./waterfall.js";

const SETTLE_MS = 8_000;

const LIVE = ["created", "running", "waiting", "paused"];
const CONTROLS = {
  pause: { from: ["created", "running", "waiting"], done: ["paused", "stopping"], word: "Pause", doing: "Pausing…" },
  resume: { from: ["paused", "error"], done: ["running", "waiting", "created"], word: "Resume", doing: "Resuming…" },
  interrupt: { from: LIVE, word: "Interrupt", doing: "Sending…" },
  input: { from: LIVE, word: "Send input", doing: "Sending…" },
  destroy: { from: LIVE, done: ["stopping", "stopped"], word: "Stop", doing: "Stopping…" },
};

const record = one("[data-session]");
const sessionId = record.dataset.sessionId;
const api = `/api/sessions/${encodeURIComponent(sessionId)}`;
const draftKey = `stepwell.draft.session.${sessionId}`;
const words = one("#say");
const newest = new Newest();
const actions = new Map();
const busy = one("[data-when-busy]");
const questions = new Questions(one("[data-questions]"), sessionId, () => showAsked());
let session = pageData("session");
let pending = null; // the control whose effect is awaited

// --- steps --------------------------------------------------------------------------------------------------------------

async function fetchSteps(query) {
  const items = [];
  let cursor = null;
  do {
    const search = new URLSearchParams({ session_id: sessionId, ...query, ...(cursor ? { cursor } : {}) });
    const page = await ask("GET", `/api/agent-steps?${search}`);
    items.push(...page.items);
    cursor = query.limit ? null : page.next_cursor;
  } while (cursor);
  return items;
}

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
  showPill();
  questions.follow(session);
  showFacts();
  showReason();
  showPanels();
  showCount();
  document.title = `${word} · ${session.name} · Stepwell`;
  if (isFinal(session.status) && !liveText.isEmpty) timeline.showRunning(() => liveText.clear());
  if (before.status !== session.status) say(`${session.name} is ${word}`);
  if (pending && (isFinal(session.status) || CONTROLS[pending].done?.includes(session.status))) pending = null;
  showControls();
}

function showPill() {
  const { word, tone, glyph } = stateOf(session);
  const pill = one("[data-pill]");
  if (pill.dataset.status === session.status && one(".word", pill).textContent === word) return;
  pill.className = `pill-state t-${tone}`;
  pill.dataset.status = session.status;
  pill.replaceChildren(icon(glyph), h("span", { class: "word" }, word));
}

function showFacts() {
  const place = one("[data-elapsed]");
  const label = isFinal(session.status) ? "Took" : "Elapsed";
  if (isFinal(session.status)) {
    place.dataset.until = session.updated_at;
    setText(place, elapsed(session.created_at, session.updated_at));
  } else delete place.dataset.until; // it may have been resumed after an error
  setText(place.previousElementSibling, label);
  showFact("usage", tokensOf(session.usage));
  showFact("cost", costOf(session.usage));
}

function showFact(name, words) {
  one(`[data-${name}-fact]`).hidden = !words;
  setText(one(`[data-${name}]`), words);
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

const button = (kind) => one(`[data-control="${kind}"]`);

function barredBecause(kind) {
  if (pending === kind) return "Asked for; the worker has not answered yet.";
  if (CONTROLS[kind].from.includes(session.status)) return "";
  const { word } = stateOf(session);
  return isFinal(session.status) ? `The session has ended: ${word}.` : `Not while the session is ${word}.`;
}

function showControls() {
  for (const [kind, { word, doing }] of Object.entries(CONTROLS)) {
    const control = button(kind);
    setText(control, pending === kind ? doing : word);
    if (kind === "resume") control.dataset.hint = session.status === "error" ? "Tries the failed step again" : "";
    allow(control, barredBecause(kind));
  }
  record.classList.toggle("pending", pending !== null);
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

/** Post one control action; its effect arrives as a `state` event. */
async function post(kind, body) {
  const control = button(kind);
  const error = one("[data-dock-error]");
  error.textContent = "";
  let isSent = false;
  const hasRun = await onceAtATime(control, async () => {
    try {
      const { action_id } = await ask("POST", `${api}/${kind}`, body, { keepalive: true });
      isSent = true;
      if (kind === "input" || kind === "interrupt") note(action_id, kind);
      else awaitEffect(kind);
    } catch (problem) {
      error.textContent = `${CONTROLS[kind].word}: ${problem.message}`;
    }
  });
  if (!hasRun && control.disabled) error.textContent = `${CONTROLS[kind].word} was not sent: ${control.title}`;
  showControls();
  return isSent;
}

function awaitEffect(kind) {
  if (CONTROLS[kind].done.includes(session.status)) return;
  pending = kind;
  setTimeout(() => {
    if (pending !== kind) return;
    pending = null;
    one("[data-dock-error]").textContent = `${CONTROLS[kind].word} is stored, but no worker has taken it up yet.`;
    showControls();
  }, SETTLE_MS);
}

async function send(kind) {
  const text = words.value.trim();
  if (!text) {
    words.focus();
    return;
  }
  if (await post(kind, kind === "interrupt" ? { guidance: text } : { text, when_busy: busy.value })) {
    words.value = "";
    saveDraft();
    words.dispatchEvent(new Event("input"));
  }
}

function stop() {
  const control = button("destroy");
  allow(control, "It stops when the bar below runs out.");
  setText(control, "Stopping…");
  doUnlessUndone(
    (seconds) => `Stopping ${session.name} in ${seconds} s.`,
    () => {
      allow(control, "");
      post("destroy", {});
    },
    showControls,
  );
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
waterfall.start(location.hash === "#trace");
timeline.start(Number(/^#step-(\d+)$/.exec(location.hash)?.[1] ?? Number.NaN));

liveText.drop(timeline.last);
showPieces(pageData("live-text"));

words.value = localStorage.getItem(draftKey) ?? "";
words.dispatchEvent(new Event("input"));
words.addEventListener("input", saveDraft);
words.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    if (!button("input").disabled) send("input");
  }
});
one("[data-dock]").addEventListener("submit", (event) => {
  event.preventDefault();
  send("input");
});
button("interrupt").addEventListener("click", () => send("interrupt"));
button("pause").addEventListener("click", () => post("pause", {}));
button("resume").addEventListener("click", () => post("resume", {}));
button("destroy").addEventListener("click", stop);

live.follow({ session_id: sessionId }, record.dataset.liveCursor, { apply, resync });
