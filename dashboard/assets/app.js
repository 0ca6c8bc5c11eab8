// Shows the page that the address names, the state of the connection, and who is signed in.

import { onConnection, onToken } from "./lib/api.js";
import { fill, h, link, setText } from "./lib/dom.js";
import { account } from "./lib/account.js";
import { notice } from "./lib/notice.js";
import { PAGES } from "./pages.js";

const main = document.getElementById("main");
const links = document.getElementById("pages");
const connection = document.getElementById("connection");

let shown = new AbortController();
let first = true;

async function show() {
  shown.abort();
  shown = new AbortController();
  const { signal } = shown;
  const path = location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decoded);
  const page = PAGES.find(({ name }) => name === (path[0] || "overview"));
  mark(page);
  if (!page) {
    document.title = "Estimand";
    fill(main, h("h1", {}, "There is no such page"), h("p", {}, link("To the overview", "#/overview")));
    return;
  }
  document.title = [page.title, ...path.slice(1), "Estimand"].join(" · ");
  try {
    const { show: showPage } = await page.load();
    if (signal.aborted) return;
    const place = h("div", { class: `page ${page.name}` });
    fill(main, place);
    await showPage(place, path.slice(1), signal);
  } catch (error) {
    if (!signal.aborted) fill(main, h("h1", {}, page.title), notice(error));
  }
  // Who goes from page to page by keyboard or by ear is where the page begins.
  if (!first && !signal.aborted) main.focus({ preventScroll: true });
  if (!first) window.scrollTo(0, 0);
  first = false;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function mark(page) {
  for (const entry of links.querySelectorAll("a")) {
    if (entry.hash !== `#/${page?.name}`) {
      entry.removeAttribute("aria-current");
      continue;
    }
    entry.setAttribute("aria-current", "page");
    entry.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
}

fill(links, PAGES.map(({ name, title }) => h("li", {}, link(title, `#/${name}`))));
fill(document.getElementById("account"), account());
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
onConnection((lost) => {
  connection.classList.toggle("lost", lost);
  setText(connection, lost ? "Connection lost, trying again" : "");
});
onToken(show);
window.addEventListener("hashchange", show);
show();
