// Requests to the service that this page came from, and the streams that keep it current.
//
// The token is a variable of this module: it is in no URL and no storage, no other script can read it, and it is gone
// when the page is.

// Where the service is: this file lies two folders below it, also where a proxy shows it below a path of its own.
const SERVICE = new URL("../../", import.meta.url);

let token = null;
const tokenListeners = new Set();

// The longest silence of a stream: the service sends a comment every 15 seconds.
const SILENCE_MS = 40_000;
// A page that nobody looks at holds no stream: a browser has six connections to a service for all of its pages.
const UNSEEN_MS = 5_000;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 10_000;

/** A request that was refused, with the problem document that says why. */
export class Problem extends Error {
  constructor(status, document) {
    super(document.detail || document.title || `status ${status}`);
    this.status = status;
    this.kind = document.type || "";
    this.title = document.title || "";
    this.errors = document.errors || [];
    this.retryAfter = document.retryAfter;
  }
}

/** No answer came: the service is away, or the way to it. */
export class Unreachable extends Error {}

export const signedIn = () => token !== null;

export function setToken(text) {
  token = text;
  for (const listener of tokenListeners) listener();
}

export function onToken(listener) {
  tokenListeners.add(listener);
}

// Requests that failed for want of an answer since the last one that had one.
let lost = false;
const connectionListeners = new Set();

export function onConnection(listener) {
  connectionListeners.add(listener);
}

function setLost(now) {
  if (lost === now) return;
  lost = now;
  for (const listener of connectionListeners) listener(lost);
}

function headersOf(extra, shown) {
  const headers = new Headers(extra);
  if (shown !== null) headers.set("Authorization", `Bearer ${shown}`);
  return headers;
}

async function send(path, options) {
  try {
    const response = await fetch(new URL(path.slice(1), SERVICE), { ...options, cache: "no-store", credentials: "omit", redirect: "error" });
    setLost(false);
    return response;
  } catch (error) {
    if (options.signal?.aborted) throw error;
    setLost(true);
    throw new Unreachable("the service does not answer");
  }
}

async function refusal(response) {
  let document = {};
  try {
    document = await response.json();
  } catch {
    document = { detail: `the service answered with status ${response.status}` };
  }
  return new Problem(response.status, document);
}

/** Asks for something, and answers with the response. `as` is a token to be tried that is not the page's yet. */
export async function ask(method, path, { body, headers, signal, as = token } = {}) {
  const options = { method, signal, headers: headersOf(headers, as) };
  if (body !== undefined) {
    options.headers.set("Content-Type", "application/json");
    options.body = typeof body === "string" ? body : JSON.stringify(body);
  }
  const response = await send(path, options);
  if (!response.ok) throw await refusal(response);
  return response;
}

/** The JSON of an answer; null if it has none. */
export async function json(method, path, options) {
  const response = await ask(method, path, options);
  return response.status === 204 ? null : response.json();
}

export const get = (path, options) => json("GET", path, options);

/** A query, without the parameters that are not there. */
export function query(path, parameters) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== null && value !== "") search.set(name, value);
  }
  const text = search.toString();
  return text ? `${path}?${text}` : path;
}

export const segment = encodeURIComponent;

/** A key by which a request that is sent twice is known to be one. */
export function freshKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const end = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(end);
      reject(signal.reason);
    });
  });
}

/** Waits until the page is seen, or until `signal`. */
export function seen(signal) {
  return new Promise((resolve) => {
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      signal.removeEventListener("abort", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look);
    look();
  });
}

function backOff(attempt) {
  const longest = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** attempt);
  return longest * (0.5 + Math.random() / 2);
}

/** True if the same request may well be answered later. */
const passes = (error) => error instanceof Unreachable || [408, 429, 502, 503, 504].includes(error.status);

const isFinal = ({ status, kind }) => status === 401 || status === 403 || kind === "not-served";

/**
 * Calls `look` at once and then every so many milliseconds while the page is seen, until `signal`. While no answer
 * comes it is tried again with growing pauses; another failure is given to `failed`, and tried again, too, unless it is
 * for want of a right.
 */
export async function poll(look, every, { signal, failed = () => {} }) {
  let attempt = 0;
  while (!signal.aborted) {
    try {
      if (!document.hidden || attempt > 0) await look();
      attempt = 0;
    } catch (error) {
      if (signal.aborted) return;
      attempt += 1;
      if (!(error instanceof Unreachable)) failed(error);
      // Asking again changes nothing: with another token the page begins anew.
      if (isFinal(error)) return;
      if (!(error instanceof Unreachable) && !(error instanceof Problem)) console.error(error);
    }
    await pause(attempt > 0 ? Math.max(backOff(attempt), attempt > 3 ? every : 0) : every, signal).catch(() => {});
  }
}

/**
 * Follows server-sent events until `signal`, while the page is seen. EventSource cannot show a token, so the stream is read
 * here; after a break it is resumed behind the last event. Ends with the problem if the request is refused for good.
 */
export async function watch(path, handle, { signal }) {
  let last = null;
  let attempt = 0;
  while (!signal.aborted) {
    await seen(signal);
    try {
      await stream(path, last, signal, (event) => {
        attempt = 0;
        if (event.id) last = event.id;
        handle(event);
      });
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Problem && !passes(error)) throw error;
      if (!(error instanceof Problem) && !document.hidden) setLost(true);
    }
    if (document.hidden) continue;
    attempt += 1;
    await pause(backOff(attempt), signal).catch(() => {});
  }
}

async function stream(path, last, signal, handle) {
  const broken = new AbortController();
  const end = () => broken.abort();
  signal.addEventListener("abort", end);
  let silence = setTimeout(end, SILENCE_MS);
  let unseen = null;
  const look = () => {
    clearTimeout(unseen);
    unseen = document.hidden ? setTimeout(end, UNSEEN_MS) : null;
  };
  document.addEventListener("visibilitychange", look);
  try {
    const headers = { Accept: "text/event-stream" };
    if (last !== null) headers["Last-Event-ID"] = last;
    const response = await ask("GET", path, { headers, signal: broken.signal });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const parse = parser(handle);
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(silence);
      silence = setTimeout(end, SILENCE_MS);
      parse(value);
    }
  } finally {
    clearTimeout(silence);
    clearTimeout(unseen);
    document.removeEventListener("visibilitychange", look);
    signal.removeEventListener("abort", end);
    broken.abort();
  }
}

/** A function that takes pieces of a stream, and hands on each event when all of it is there. */
export function parser(handle) {
  let rest = "";
  let event = { type: "message", data: "", id: "" };
  return (piece) => {
    const lines = (rest + piece).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line === "" || line === "\r") {
        if (event.data) handle(event);
        event = { type: "message", data: "", id: "" };
        continue;
      }
      const colon = line.indexOf(":");
      if (colon === 0) continue;
      const field = colon < 0 ? line : line.slice(0, colon);
      const text = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "").replace(/\r$/, "");
      if (field === "event") event.type = text;
      else if (field === "data") event.data = event.data ? `${event.data}\n${text}` : text;
      else if (field === "id") event.id = text;
    }
  };
}
