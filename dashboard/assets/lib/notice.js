// What is shown in the place of something that cannot be shown.

import { Problem, signedIn, Unreachable } from "./api.js";
import { signIn } from "./account.js";
import { button, h } from "./dom.js";

/** Says why something is not there; who is not signed in is asked to. */
export function notice(error, subject = "This") {
  if (error instanceof Problem && error.status === 401) {
    return h("div", { class: "notice" }, h("p", {}, `${subject} needs a token.`), button("Sign in", signIn, { class: "primary" }));
  }
  if (error instanceof Problem && error.status === 403) {
    const role = signedIn() ? "Your token does not allow it" : "It is not allowed";
    return h("div", { class: "notice" }, h("p", {}, `${subject} is not for you. ${role}: ${error.message}.`));
  }
  if (error instanceof Problem && error.kind === "not-served") {
    return h("div", { class: "notice" }, h("p", {}, `${subject} is not served at this address. Open this page where all services are, such as that of \`estimand up\`.`));
  }
  if (error instanceof Unreachable) return h("div", { class: "notice" }, h("p", {}, "The service does not answer."));
  // The page is left.
  if (error.name === "AbortError") return h("p");
  if (!(error instanceof Problem)) console.error(error);
  return h("div", { class: "notice bad" }, h("p", {}, error.message));
}
