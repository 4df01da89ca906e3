// One copilot at work: what is said, what its agents tell of it, what stands on their board, and what each turn did.

import { live, startFrame } from "./banner.js";
import { Board } from "./board.js";
import { Controls } from "./controls.js";
import { asCopilot } from "./copilotwords.js";
import { all, allow, ask, firstLine, isEmpty, isFinal, newKey, one, pageData, say, setText, stateOf } from "./dom.js";
import { Head } from "./head.js";
import { Insights } from "./insights.js";
import { Newest, Sequence } from "./live.js";
import { Panels } from "./panels.js";
import { Questions } from "./questions.js";
import { keyOf, postedIn, waitingIn } from "./saying.js";
import { SpeakerField } from "./speakerfield.js";
import { stepsOf } from "./steps.js";
import { Transcript } from "./transcript.js";
import { Turns, turnOf } from "./turns.js";
import { spanTakenBack } from "./words.js";

const PAGE = 100;

const record = one("[data-session]");
const sessionId = record.dataset.sessionId;
const api = `/api/sessions/${encodeURIComponent(sessionId)}`;
const words = one("#say");
const sayIt = one("[data-say-it]");
const newest = new Newest();
let session = pageData("session");
const title = one("#copilot-name").textContent;
const { first, last } = one("[data-said]").dataset;

const fetchSteps = (query) => stepsOf(sessionId, query);
const head = new Head(record);
const controls = new Controls({ api, record, error: one("[data-control-error]"), onShown: showDock });
const transcript = new Transcript({ root: one("#talk"), said: pageData("said"), first: Number(first), fetchSteps });
const questions = new Questions(one("[data-questions]"), sessionId, showReason);
const speaker = new SpeakerField(one("#speaker"), one("#speakers"), sessionId);
const insights = new Insights({ root: one("#insights"), session, known: pageData("insight-list"), last: Number(last) });
const turns = new Turns({ root: one("[data-turns]"), session, turns: pageData("turn-list") });
const board = new Board({ root: one("[data-board]"), session, now: pageData("board-now"), turns: turns.turns, first: Number(first), fetchBoard });

const sequence = new Sequence(Number(last) + 1, {
  fetchRange: (from, to) => fetchSteps({ min_iteration: from, max_iteration: to, order: "asc" }),
  deliver: showSteps,
});

// --- what comes -----------------------------------------------------------------------------------------------------------

function showSteps(steps) {
  transcript.change(() => transcript.hear(steps, keyOf));
  for (const step of steps) {
    const turn = turnOf(step);
    if (turn) {
      turns.add(turn);
      board.take(turn, step.state?.board);
    }
    const span = spanTakenBack(step);
    if (span) insights.takenBack(span);
  }
  insights.stored(steps.at(-1).iteration);
  speaker.offer(transcript.speakers);
}

async function fetchBoard(iteration) {
  const [step] = await fetchSteps({ min_iteration: iteration, max_iteration: iteration, limit: 1 });
  return step?.state?.board ?? {};
}

function showSession(next) {
  const before = session.status;
  session = { ...session, ...next };
  const seen = asCopilot(session);
  const { word } = stateOf(seen);
  head.show(seen);
  controls.follow(session);
  document.title = `${word} · ${title} · Stepwell`;
  if (before !== session.status && isFinal(session.status)) say(`The session is ${word}`);
  const error = one("[data-error-line]");
  error.hidden = isEmpty(session.last_error);
  setText(error, firstLine(session.last_error));
  if (questions.isAsking || session.status === "paused") questions.follow(session);
  showReason();
}

function showReason() {
  const reason = questions.asks(session.reason) ? "" : reasonOf(session); // the question below says it
  one("[data-reason]").hidden = !reason;
  setText(one("[data-reason]"), reason);
}

/** Why nobody listens, where that is not a matter of course. */
function reasonOf({ status, reason }) {
  if (status === "paused") return reason || "Paused. What is said is kept and heard when it goes on.";
  if (status === "created") return "Waits for a worker to begin it.";
  return isFinal(status) && reason ? reason : "";
}

/** Segments that are on their way: in the thread or in the queue, and no step has heard them. */
function showUnheard(rows) {
  if (rows.length) transcript.change(() => rows.forEach((row) => transcript.put(row)));
}

function isOpen({ kind, status }) {
  return kind === "agent_input" && (status === "pending" || status === "claimed");
}

function apply(events) {
  const of = (kind) => events.filter(({ event }) => event === kind).map(({ data }) => data);
  const states = of("state").filter((data) => data.session_id === sessionId && newest.accepts(sessionId, data.updated_at));
  const fresh = insights.take(of("insight").filter((insight) => insight.session_id === sessionId));
  const steps = sequence.offer(of("step"));
  const mine = of("action").filter((action) => action.session_id === sessionId);
  showUnheard([...of("message").map(postedIn), ...mine.filter(isOpen).map(waitingIn)].filter(Boolean));
  const guiding = mine.filter(({ kind }) => kind === "agent_interrupt");
  if (guiding.length) transcript.change(() => guiding.forEach((action) => transcript.drop(action.metadata?.message_id)));
  if (states.length) showSession(states.at(-1));
  const asking = of("approval").findLast((data) => data.session_id === sessionId);
  if (asking) questions.follow({ ...session, updated_at: asking.updated_at });
  return fresh + steps + states.length;
}

/** The server cannot continue from our cursor: read the session, and what came after our last step. */
async function resync() {
  showSession(await ask("GET", api));
  const steps = await fetchSteps({ min_iteration: sequence.next, order: "asc" });
  sequence.offer(steps);
}

/** The same for the thread: its newest posts, as far as no step has heard them. */
async function resyncThread() {
  const { items } = await ask("GET", `/api/conversations/${encodeURIComponent(session.conversation_id)}/messages?order=desc&limit=${PAGE}`);
  const heardAt = turns.turns[0]?.created_at ?? "";
  showUnheard(items.toReversed().filter(({ created_at: at }) => at > heardAt).map(postedIn).filter(Boolean));
}

// --- saying something -----------------------------------------------------------------------------------------------------

function showDock() {
  const isOver = isFinal(session.status);
  words.disabled = isOver;
  words.placeholder = isOver ? "The session has ended" : "Say something";
  allow(sayIt, isOver ? "The session has ended." : "");
}

/** Post what is written as a segment of the speaker. The same key makes trying again safe. */
async function saySomething() {
  const text = words.value.trim();
  if (!text) return words.focus();
  if (sayIt.disabled) return setText(one("[data-say-error]"), sayIt.title);
  const said = { text, speaker: speaker.use(), idempotency_key: newKey() };
  words.value = "";
  words.dispatchEvent(new Event("input"));
  setText(one("[data-say-error]"), "");
  try {
    await post(said);
    transcript.toEnd();
  } catch (problem) {
    setText(one("[data-say-error]"), `Not said. ${problem.message}`);
    words.value ||= text;
  }
  return undefined;
}

async function post(said) {
  if (!session.conversation_id) {
    const payload = { text: said.text, data: { segment: { speaker: said.speaker } } };
    const { action_id: id } = await ask("POST", `${api}/input`, { ...payload, idempotency_key: said.idempotency_key });
    return showUnheard([waitingIn({ payload, id })]);
  }
  const { message } = await ask("POST", `/api/conversations/${encodeURIComponent(session.conversation_id)}/messages`, { ...said, as: "input" });
  return showUnheard([postedIn(message)].filter(Boolean));
}

// --- begin ----------------------------------------------------------------------------------------------------------------

startFrame();
newest.accepts(sessionId, session.updated_at);
new Panels(one("[data-copilot]"), all("[data-panel]")).start();
transcript.start();
insights.start();
turns.start();
board.start();
controls.start();
speaker.start(transcript.speakers);
showSession({});
questions.follow(session);
words.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  saySomething();
});
one("[data-dock]").addEventListener("submit", (event) => {
  event.preventDefault();
  saySomething();
});
const rooms = [{ spec: { session_id: sessionId }, cursor: record.dataset.liveCursor, handlers: { apply, resync } }];
if (session.conversation_id) rooms.push({ spec: { conversation_id: session.conversation_id }, cursor: record.dataset.threadCursor, handlers: { apply, resync: resyncThread } });
live.followAll(rooms);
