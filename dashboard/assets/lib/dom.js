// Makes elements. All text is text: nothing that a service says is ever read as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** An element with properties (`class`, `on`, attributes) and children: elements, texts, or lists of them. */
export const h = (tag, properties = {}, ...children) => furnish(document.createElement(tag), properties, children);

/** The same for an element of a drawing. */
export const drawn = (tag, properties = {}, ...children) => furnish(document.createElementNS(SVG, tag), properties, children);

function furnish(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== undefined && child !== null && child !== false) element.append(child);
  }
}

/** Puts these children in the place of those that are there. */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/** Sets a text, if it is another one. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export const button = (text, act, properties = {}) =>
  h("button", { type: "button", ...properties, on: { click: act } }, text);

export const link = (text, place, properties = {}) => h("a", { href: place, ...properties }, text);

/** A part of a page, with its heading. */
export function section(title, properties, ...children) {
  const { tools, ...rest } = properties || {};
  const heading = h("h2", {}, title);
  return h("section", { class: "card", ...rest }, h("div", { class: "card-head" }, heading, tools), ...children);
}

/** A small word with a tone: good, warn, bad or plain. */
export const tag = (text, tone = "plain") => h("span", { class: `tag ${tone}` }, text);

export const note = (...children) => h("p", { class: "note" }, ...children);

/** Terms and what is said of each; those without are left out. */
export function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== false);
  return h("dl", { class: "facts" }, shown.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, value))));
}

/** A button that cannot be pressed again while what it does goes on. */
export function action(text, act, properties = {}) {
  const made = button(text, async () => {
    made.disabled = true;
    try {
      await act();
    } finally {
      made.disabled = false;
    }
  }, properties);
  return made;
}

/** A dialog. `build` is given a function that closes it; the focus goes back to where it was. */
export function dialog(title, build) {
  const before = document.activeElement;
  const close = () => shown.close();
  const name = `dialog-${Math.random().toString(36).slice(2)}`;
  const shown = h("dialog", { "aria-labelledby": name });
  append(shown, [h("h2", { id: name }, title), build(close)]);
  shown.addEventListener("close", () => {
    shown.remove();
    before?.focus?.();
  });
  document.body.append(shown);
  shown.showModal();
  return close;
}

/** Asks whether to go on; `act` does it, and what it throws is shown. */
export function confirm(title, text, word, act) {
  dialog(title, (close) => {
    const failure = h("p", { class: "failure", role: "alert" });
    const go = action(word, async () => {
      try {
        await act();
        close();
      } catch (error) {
        setText(failure, error.message);
      }
    }, { class: "danger" });
    return [h("div", {}, text), failure, h("div", { class: "buttons" }, go, button("Keep it", close))];
  });
}

/** Says something to everybody, screen readers too, for some seconds. */
export function announce(text) {
  let place = document.getElementById("announcement");
  if (!place) {
    place = h("div", { id: "announcement", class: "announcement", role: "status", "aria-live": "polite" });
    document.body.append(place);
  }
  setText(place, text);
  clearTimeout(announce.end);
  announce.end = setTimeout(() => setText(place, ""), 6000);
}
