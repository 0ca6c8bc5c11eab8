// Signing in by a token, and out.

import { ask, Problem, setToken, signedIn } from "./api.js";
import { button, dialog, fill, h } from "./dom.js";
import { Form } from "./form.js";

let role = "";

/** The part of the head of the page that says who is signed in. */
export function account() {
  place = h("div", {});
  paint();
  return place;
}

let place;

function paint() {
  if (!signedIn()) fill(place, button("Sign in", signIn));
  else fill(place, h("span", { class: "role" }, role), button("Sign out", signOut));
}

export function signOut() {
  role = "";
  setToken(null);
  paint();
}

export function signIn() {
  dialog("Sign in", (close) => {
    const form = new Form({
      label: "Sign in",
      fields: [{
        name: "token", label: "Token", kind: "secret",
        hint: "That of the operator is in the file `token` of the data folder; `estimand token create` makes others. It is kept until this page is left.",
      }],
      word: "Sign in",
      more: [button("Cancel", close)],
      submit: async (filled) => {
        const token = filled.value("token");
        if (!token) throw new Problem(400, { errors: [{ field: "token", message: "is missing" }] });
        role = await roleOf(token);
        close();
        setToken(token);
        paint();
      },
    });
    return form.element;
  });
}

// The widest role first: whether it may, the service says.
const ASKED = [["/api/audit?limit=1", "operator"], ["/api/tasks?limit=1", "user"], ["/api/registry", "reader"], ["/api/bindings", "reader"]];

async function roleOf(token) {
  if (!/^[\x21-\x7e]+$/.test(token)) {
    throw new Problem(400, { errors: [{ field: "token", message: "has characters that no token has" }] });
  }
  for (const [path, name] of ASKED) {
    try {
      await ask("GET", path, { as: token });
      return name;
    } catch (error) {
      if (error.status === 401) {
        throw new Problem(401, { errors: [{ field: "token", message: `is not taken: ${error.message}` }] });
      }
      if (error.status !== 403 && error.status !== 404) throw error;
    }
  }
  throw new Problem(403, { errors: [{ field: "token", message: "may read nothing here" }] });
}

