// Requests to the service that this page came from. The API key is kept in memory only.

import { left } from "./bounds.js";

let apiKey = "";

/** Listeners for "the service wants a key". */
export const access = new EventTarget();

/** A request that failed: a sentence for people, and whether the same request may be sent again. */
export class Problem extends Error {
  constructor(sentence, { status = 0, code = "" } = {}) {
    super(sentence);
    this.status = status;
    this.code = code;
  }

  /** Whether the service may have done the work: then only the same Idempotency-Key is safe to send. */
  get isUndecided() {
    return this.status === 0 || this.status === 409 || this.status >= 500;
  }
}

export function useKey(key) {
  apiKey = key.trim();
}

export function get(path, signal) {
  return call(path, { method: "GET", signal });
}

export function post(path, body, { idempotencyKey, signal } = {}) {
  const headers = { "Content-Type": "application/json" };
  if (idempotencyKey) headers["Idempotency-Key"] = idempotencyKey;
  return call(path, { method: "POST", headers, body: JSON.stringify(body), signal });
}

/** What posts requests that are charged: one whose outcome is unknown is repeated under its own key, so that it is charged once. */
export function charged(path) {
  let pending = null;
  return async (fields) => {
    const body = JSON.stringify(fields), sent = pending = pending?.body === body ? pending : { body, key: newIdempotencyKey() };
    try {
      const released = await post(path, fields, { idempotencyKey: sent.key });
      pending = null;
      return released;
    } catch (error) {
      if (!error.isUndecided || (error.status === 409 && sent.refused)) pending = null; // or lost for good
      sent.refused = error.status === 409;
      throw error;
    }
  };
}

/** A random name for one request. randomUUID exists on secure origins only. */
function newIdempotencyKey() {
  if (crypto.randomUUID) return crypto.randomUUID();
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function call(path, options) {
  const headers = { ...options.headers };
  if (/[^\x21-\x7e]/.test(apiKey)) {
    access.dispatchEvent(new Event("needed"));
    throw new Problem("A key has letters, digits, - and _ only: copy it again.", { status: 401 });
  }
  if (apiKey) headers.Authorization = `Bearer ${apiKey}`;
  let response;
  try {
    response = await fetch(path, { ...options, headers, credentials: "omit", cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("The service does not answer. Check that it is running, then try again.");
  }
  const body = await response.json().catch(() => null);
  if (response.ok && body !== null) return body;
  if (response.status === 401) access.dispatchEvent(new Event("needed"));
  throw problemOf(response, body?.error ?? {});
}

function problemOf(response, error) {
  const about = { status: response.status, code: error.code ?? "" };
  return new Problem(sentenceOf(response, error), about);
}

function sentenceOf(response, error) {
  const wait = response.headers.get("Retry-After");
  const soon = wait ? `in ${wait} ${wait === "1" ? "second" : "seconds"}` : "in a moment";
  switch (response.status) {
    case 401:
      return "The service needs a valid API key: enter yours at the top of the page.";
    case 402:
      return exhausted(error);
    case 408:
      return "The text took too long to arrive: check the connection and try again.";
    case 409:
      return "This request was already charged and its answer is not there yet: try again; if that keeps failing, the answer is lost, so start anew, which is charged again.";
    case 413:
      return `The text is too long: ${error.message ?? "shorten it"}.`;
    case 421:
      return "The service answers on this machine only: open the page under localhost.";
    case 422:
      if (error.code !== "idempotency_key_reused") break;
      return "The request changed while it was being repeated: start anew.";
    case 503:
      return error.code === "ledger_unavailable"
        ? `The budget's ledger cannot be used right now: try again ${soon}; you are not charged twice.`
        : `The service is busy: try again ${soon}; you are not charged twice.`;
  }
  return response.status >= 500
    ? "The service failed: try again; you are not charged twice. Its log says what happened."
    : `The service refused the request: ${error.message ?? "no reason given"}.`;
}

function exhausted(error) {
  const rest = error.remaining ? ` (epsilon ${left(error.remaining.epsilon)} is left)` : "";
  const when = error.renews_at ? `wait until it renews on ${new Date(error.renews_at).toLocaleString()}` : "ask for a new budget, because this one does not renew";
  return `The privacy budget is too small for this release${rest}: choose a smaller epsilon, or ${when}. Nothing was charged.`;
}
