// What copilot pages say in words; `web/copilotwords.py` says the same on the server.

import { sessionPath } from "./dom.js";

/** type of an insight -> its word, tone and glyph */
const KINDS = {
  suggestion: ["suggestion", "running", "bulb"],
  warning: ["warning", "waiting", "warn"],
  opportunity: ["opportunity", "done", "spark"],
  fact: ["fact", "quiet", "info"],
  praise: ["praise", "sleeping", "heart"],
  error: ["error", "failed", "cross"],
};
const HINTS = {
  red: "failed",
  orange: "waiting",
  amber: "waiting",
  yellow: "waiting",
  green: "done",
  blue: "running",
  purple: "sleeping",
  violet: "sleeping",
  grey: "quiet",
  gray: "quiet",
};
const SKIPPED = {
  not_allowed: "is not on the list of this session",
  group_off: "its group is switched off",
  trigger_type_mismatch: "does not answer to this trigger",
  silence: "the silence was not long enough yet",
  silence_threshold_not_reached: "the silence was not long enough yet",
  cooldown: "rests after its last run",
  rate_limit: "has run as often as it may",
  conditions: "its conditions did not hold",
  conditions_not_met: "its conditions did not hold",
  misconfigured: "its configuration cannot be used",
};
const TRIGGERS = {
  turn_based: "somebody spoke",
  keyword: "a word was said",
  silence: "it was quiet",
  interval: "its time had come",
  event: "something happened",
  force: "asked for by hand",
};

/** how the reason of a session begins that does not wait for a person */
const LISTENS = ["waiting for input", "sleeping until"];

const listed = (table, key) => (Object.hasOwn(table, key) ? table[key] : undefined);

/** An object that was stored, or none. */
export const objectOf = (value) => (typeof value === "object" && value !== null && !Array.isArray(value) ? value : {});

/** The objects in a list that was stored. */
export const objectsIn = (value) => listIn(value).filter((one) => typeof one === "object" && one !== null && !Array.isArray(one));

export const listIn = (value) => (Array.isArray(value) ? value : []);

const hint = (insight, name) => String(objectOf(insight.metadata)[name] ?? "").trim();

/** How soon an insight matters: "A", "B" or "C". */
export function zoneOf(insight) {
  const zone = hint(insight, "zone").toUpperCase();
  return ["A", "B"].includes(zone) ? zone : "C";
}

/** The word, tone and glyph of an insight. */
export function insightKind(insight) {
  const [word, tone, glyph] = listed(KINDS, insight.type) ?? ["note", "quiet", "info"];
  return { word, tone: listed(HINTS, hint(insight, "color").toLowerCase()) ?? tone, glyph };
}

/** A confidence as a word. */
export function sureness(confidence) {
  if (typeof confidence !== "number") return "";
  return confidence >= 0.8 ? "sure" : confidence >= 0.5 ? "likely" : "maybe";
}

/** What can be said word for word. */
export function lineToSay(insight) {
  const line = objectOf(insight.metadata).suggested_response;
  return typeof line === "string" ? line.trim() : "";
}

/** "1:05": the time since the conversation began. */
export function sinceStart(seconds) {
  if (typeof seconds !== "number" || !(seconds >= 0) || seconds === Infinity) return "";
  const whole = Math.floor(seconds);
  const pad = (number) => String(number).padStart(2, "0");
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  return hours ? `${hours}:${pad(minutes)}:${pad(whole % 60)}` : `${minutes}:${pad(whole % 60)}`;
}

/** How long something took; nothing where nobody knows. */
export const tookWords = (ms) => (typeof ms !== "number" ? "" : ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`);

export const skipWords = (reason) => listed(SKIPPED, reason) ?? String(reason).replaceAll("_", " ");

/** What a turn of the engine was about. */
export function triggerWords({ trigger = "", metadata }) {
  const told = objectOf(metadata);
  const words = listed(TRIGGERS, trigger) ?? String(trigger).replaceAll("_", " ");
  if (trigger === "keyword" && told.keyword) return `${words}: ${told.keyword}`;
  if (trigger === "silence" && typeof told.silence_duration === "number") return `${words} for ${Math.round(told.silence_duration)} s`;
  return words;
}

/** Why a turn came, in one line. */
export const turnWords = (turn) => turn.turns.map(triggerWords).join(", then ") || (turn.problem ? "not taken up" : "a person decided");

/** A fact's place on the board. */
export function factName({ type, key }) {
  return key === null || key === undefined || key === "" ? String(type ?? "") : `${type ?? ""} · ${key}`;
}

/** What came of a run. */
export function didWords(run) {
  const found = listIn(run.insights).length;
  const parts = [
    ["wrote", Object.keys(objectOf(run.variables))],
    ["pushed to", Object.keys(objectOf(run.queues))],
    ["learned", objectsIn(run.facts).map(factName)],
    ["remembers", Object.keys(objectOf(run.memory))],
    ["emitted", listIn(run.events).map(String)],
  ];
  const told = parts.filter(([, names]) => names.length).map(([verb, names]) => `${verb} ${names.join(", ")}`);
  if (found) told.unshift(counted(found, "insight"));
  if (run.failed) told.unshift("failed");
  return told.join("; ") || "had nothing to say";
}

/** A session as its page calls it: one that waits for words or for a moment listens. */
export function asCopilot(session) {
  const reason = session.reason || LISTENS[0];
  const listens = session.status === "waiting" && LISTENS.some((words) => reason.startsWith(words));
  return { ...session, status: listens ? "listening" : session.status };
}

/** An agent's name, where only its id is known. */
export const agentName = (id) => {
  const words = String(id ?? "").replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
};

/** The set that a session was begun with, for people. */
export const setTitle = (session) => agentName(objectOf(session.config).agent_set) || "Own agents";

/** Whether it is a try of an agent, which the studio tells of, and no conversation. */
export const isDryRun = (session) => objectOf(session.config).dry_run === true;

/** Where an agent of a session can be looked at and changed. */
export function studioPath(session, agentId) {
  const search = { agent_set: objectOf(session.config).agent_set ?? "", agent_id: agentId, session_id: session.session_id };
  return `/copilot/studio?${new URLSearchParams(search)}`;
}

export const copilotPath = (id) => `/copilot/${encodeURIComponent(id)}`;

export const stepPath = (session, iteration) => `${sessionPath(session.session_id)}#step-${iteration}`;

export const counted = (number, word) => `${number} ${number === 1 ? word : `${word}s`}`;
