// What the frame says about the connection: the dot, the banner, the clocks, the buttons, the worker and the model.

import { ask, holdWrites, one, say, setText, wireCommon } from "./dom.js";
import { Live } from "./live.js";
import { freeze, startClocks, unfreeze } from "./time.js";

const SHOW_AFTER_MS = 1_700;
const GREEN_FOR_MS = 3_000;
const TICK_MS = 500;
const FRAME_EVERY_MS = 10_000;
const HELD = "The connection is lost. This waits until it is back.";

export const live = new Live();

const root = document.documentElement;
let greenUntil = 0;
let isShown = false;

/** Start the frame. Pages follow their room after it. */
export function startFrame() {
  wireCommon();
  startClocks();
  live.addEventListener("change", show);
  live.addEventListener("back", (event) => backAgain(event.detail));
  live.addEventListener("worker", (event) => showWorkers(event.detail));
  one("[data-banner-retry]").addEventListener("click", () => live.retryNow());
  live.start();
  setInterval(show, TICK_MS);
  setInterval(() => {
    if (live.state === "live" && !document.hidden) refreshFrame();
  }, FRAME_EVERY_MS);
}

const downFor = () => (live.lostAt === null ? 0 : Date.now() - live.lostAt);

function show() {
  showDot();
  if (downFor() >= SHOW_AFTER_MS) showLost();
  else if (live.state === "live" && Date.now() >= greenUntil) hideBanner();
  else if (live.lostAt !== null) setTimeout(show, SHOW_AFTER_MS - downFor() + 5);
}

function showDot() {
  const dot = one("[data-live]");
  const age = live.lastHeard === null ? null : (Date.now() - live.lastHeard) / 1000;
  const since = age === null ? "" : age < 10 ? `${age.toFixed(1)} s` : age < 60 ? `${Math.floor(age)} s` : `${Math.floor(age / 60)} min`;
  const state = live.state === "live" ? "live" : live.hasBeenLive || live.lostAt !== null ? "down" : "connecting";
  dot.dataset.live = state;
  setText(one("[data-live-text]"), { live: `live · ${since}`, down: `lost · ${since}`, connecting: "connecting" }[state]);
  dot.title = age === null ? "Not connected yet" : `Last heard from the server ${since} ago`;
}

function showLost() {
  const banner = one("[data-banner]");
  if (!isShown) {
    isShown = true;
    root.dataset.link = "down";
    banner.dataset.banner = "lost";
    banner.hidden = false;
    freeze();
    holdWrites(HELD);
    setText(one("[data-banner-text]"), "Connection lost. Showing the last known state.");
    one("[data-banner-retry]").hidden = false;
  }
  const wait = live.nextTryAt === null ? null : Math.max(0, Math.ceil((live.nextTryAt - Date.now()) / 1000));
  const retry = wait === null ? "Trying now." : wait === 0 ? "Retrying now." : `Retrying in ${wait} s.`;
  setText(one("[data-banner-aside]"), `Lost ${Math.floor(downFor() / 1000)} s ago. ${retry}`);
}

function backAgain({ missed, restarted, wasDown, again }) {
  if (!wasDown || (!isShown && !restarted)) {
    release();
    return;
  }
  const events = missed === 1 ? "1 event" : `${missed} events`;
  const caught = again ? `Caught up ${events}.` : "";
  setText(one("[data-banner-text]"), `${restarted ? "Back. Server restarted." : "Back."} ${caught}`.trim());
  setText(one("[data-banner-aside]"), "");
  one("[data-banner-retry]").hidden = true;
  const banner = one("[data-banner]");
  banner.dataset.banner = "back";
  banner.hidden = false;
  greenUntil = Date.now() + GREEN_FOR_MS;
  setTimeout(show, GREEN_FOR_MS + 20);
  release();
  refreshFrame();
}

/** Let clocks run and buttons work again. */
function release() {
  isShown = false;
  delete root.dataset.link;
  unfreeze();
  holdWrites("");
  show();
}

function hideBanner() {
  one("[data-banner]").hidden = true;
}

/** How many records of a page need somebody. */
export function showBadge(key, count) {
  const badge = one(`[data-badge="${key}"]`);
  if (!badge) return;
  badge.hidden = !count;
  setText(badge, String(count));
}

/** Whether anybody carries sessions on. A worker that this page has seen and that is gone now is a lost one. */
function showWorkers({ alive }) {
  const notice = one("[data-worker]");
  if (notice.hidden === alive) return;
  say(alive ? "A worker is running" : "The worker is lost");
  notice.hidden = alive;
  one("[data-worker-lost]", notice).hidden = alive;
  one("[data-worker-none]", notice).hidden = !alive;
  root.dataset.workers = alive ? "some" : "none";
}

async function refreshFrame() {
  let frame;
  try {
    frame = await ask("GET", "/frame");
  } catch {
    return; // the banner already says what is wrong
  }
  showWorkers(frame.worker);
  one("[data-model]").hidden = !frame.model.offline;
  for (const [key, count] of Object.entries(frame.badges ?? {})) showBadge(key, count);
}
