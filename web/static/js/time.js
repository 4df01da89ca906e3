// Time for people: "4 min" in lists, the exact moment on hover, clocks that tick while the page is live and stop when not.

import { all, setText } from "./dom.js";

let serverAhead = 0; // milliseconds the server's clock is ahead of this one
let frozenAt = null;

/** Learn the server's clock, so that a wrong clock here does not show wrong ages. */
export function learnServerTime(iso) {
  const moment = Date.parse(iso);
  if (Number.isFinite(moment)) serverAhead = moment - Date.now();
}

export const now = () => frozenAt ?? Date.now() + serverAhead;

/** "4 min": how long ago a moment was. */
export function ago(iso) {
  const seconds = Math.max(0, (now() - Date.parse(iso)) / 1000);
  if (seconds >= 86400) return `${Math.floor(seconds / 86400)} d`;
  if (seconds >= 3600) return `${Math.floor(seconds / 3600)} h`;
  if (seconds >= 60) return `${Math.floor(seconds / 60)} min`;
  return `${Math.floor(seconds)} s`;
}

/** "2 min 03 s": the time between two moments, or until now. What ended soon is given more exactly: "0.4 s". */
export function elapsed(start, end) {
  const precise = Math.max(0, ((end ? Date.parse(end) : now()) - Date.parse(start)) / 1000);
  if (end && precise < 10) return `${precise.toFixed(1)} s`;
  const seconds = Math.floor(precise);
  const minutes = Math.floor(seconds / 60);
  if (seconds < 60) return `${seconds} s`;
  if (minutes < 60) return `${minutes} min ${String(seconds % 60).padStart(2, "0")} s`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

/** "2026-11-21 22:13:05.123 +01:00": the moment in this place's zone. */
export function exact(iso) {
  const moment = new Date(iso);
  if (Number.isNaN(moment.getTime())) return iso;
  const pad = (number, width = 2) => String(Math.trunc(Math.abs(number))).padStart(width, "0");
  const offset = -moment.getTimezoneOffset();
  const zone = `${offset < 0 ? "−" : "+"}${pad(offset / 60)}:${pad(offset % 60)}`;
  const day = `${moment.getFullYear()}-${pad(moment.getMonth() + 1)}-${pad(moment.getDate())}`;
  const time = `${pad(moment.getHours())}:${pad(moment.getMinutes())}:${pad(moment.getSeconds())}.${pad(moment.getMilliseconds(), 3)}`;
  return `${day} ${time} ${zone}`;
}

/** "2026-11-21": the day it is here. */
export const today = () => exact(new Date(now()).toISOString()).slice(0, 10);

/** "12:40:03": a moment of today. */
export const clock = (iso) => exact(iso).slice(11, 19);

/** An element that says how long ago a moment was. */
export function ageOf(iso, className = "") {
  const element = document.createElement("time");
  element.className = className;
  element.dateTime = iso;
  element.dataset.ago = "";
  showAge(element);
  return element;
}

function showAge(element) {
  if (!element.dataset.exact) {
    element.dataset.exact = "true";
    element.title = exact(element.dateTime);
  }
  setText(element, ago(element.dateTime));
}

/** Bring every clock of the page up to date. */
export function tick() {
  all("[data-ago]").forEach(showAge);
  for (const element of all("[data-since]")) setText(element, elapsed(element.dataset.since, element.dataset.until));
}

/** Stop all clocks: nobody knows what happens meanwhile. */
export function freeze() {
  frozenAt ??= Date.now() + serverAhead;
}

export function unfreeze() {
  frozenAt = null;
  tick();
}

export function startClocks() {
  tick();
  setInterval(() => {
    if (frozenAt === null && !document.hidden) tick();
  }, 1000);
}
