"use strict";
// The page arrives whole, and so it does each second: this script puts what has changed in its place. Times are counted
// here, so that a page on which nothing has happened is the same, and need not be sent.
const byID = (id) => document.getElementById(id);
const filter = byID("filter"), stale = byID("stale");
const every = 1000, silence = 15000; // milliseconds
let heard = Date.now(), latest = 0, had = "", asked = "", focusDetail = false;

// chosen is the module in the address, which a person may have typed.
function chosen() {
  const name = location.hash.slice(1);
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

// refresh loads the page, now and each second after. A later call takes the place of one that has no answer yet.
async function refresh() {
  const mine = ++latest, module = chosen();
  try {
    const answer = await fetch("?module=" + encodeURIComponent(module), { cache: "no-cache", signal: AbortSignal.timeout(silence) });
    const text = await answer.text();
    if (mine !== latest) return;
    if (!answer.ok) throw text;
    heard = Date.now();
    stale.hidden = true;
    asked = module;
    if (text !== had) apply(text);
    had = text;
  } catch {
    if (Date.now() - heard > 4000) lost(); // nobody answers there
  }
  if (mine === latest) setTimeout(() => { if (mine === latest) refresh(); }, every);
}

function lost() {
  if (!stale.hidden) return;
  stale.textContent = "Stale since " + new Date(heard).toLocaleTimeString() + ": the operator does not answer. This page reconnects automatically.";
  stale.hidden = false;
}

function apply(text) {
  const now = new DOMParser().parseFromString(text, "text/html");
  for (const id of ["top", "detail", "rows", "queues"]) become(byID(id), now.getElementById(id));
  for (const part of document.querySelectorAll("details.more[open]")) load(part);
  const detail = byID("detail");
  if (focusDetail && !detail.hidden) { detail.focus(); focusDetail = false; }
  document.title = now.title;
  for (const row of byID("rows").children) row.classList.toggle("chosen", row.id === "m-" + asked); // its detail has its problems
  narrow();
  count();
}

// become changes an element into another one and keeps what is alike, with its focus, its selection and what is open.
function become(before, now) {
  if (before.isEqualNode(now)) return;
  if (before.nodeName !== now.nodeName || before.nodeType !== Node.ELEMENT_NODE) { before.replaceWith(now); return; }
  if (before.matches(".loaded")) return; // its content came from elsewhere
  if (before.dataset.opens !== now.dataset.opens) before.open = now.open; // what a person has opened or closed stays, until then
  for (const { name } of [...before.attributes]) if (!now.hasAttribute(name) && name !== "open") before.removeAttribute(name);
  for (const { name, value } of now.attributes) if (name !== "open") before.setAttribute(name, value);
  adopt(before, now);
}

// adopt gives an element the content of another one. Children with an id are the same ones wherever they stand.
function adopt(before, now) {
  const known = new Map([...before.children].filter((c) => c.id).map((c) => [c.id, c]));
  let place = before.firstChild;
  for (const child of [...now.childNodes]) {
    const same = child.id ? known.get(child.id) : place && !place.id ? place : null;
    if (!same) { before.insertBefore(child, place); continue; }
    if (same === place) place = place.nextSibling; else before.insertBefore(same, place);
    become(same, child);
  }
  while (place) { const next = place.nextSibling; place.remove(); place = next; }
}

// load fills a part that a person has opened, unless it has this version already. The page may be a second behind the
// answer: a list that is empty again has the version of before, so each version is loaded once again, a little later.
async function load(part, again) {
  const content = part.querySelector(".loaded"), path = part.dataset.part, version = path + " " + part.dataset.version;
  if (content.dataset.has === version && !again) return;
  if (content.dataset.of !== path) content.textContent = "…"; // that of another module
  content.dataset.has = version;
  content.dataset.of = path;
  try {
    const answer = await fetch(path), text = await answer.text(), most = 200000;
    if (content.dataset.has !== version) return; // another one was asked for since
    if (!answer.ok) throw text;
    content.textContent = text.length > most ? text.slice(0, most) + "\n… the rest is cut" : text;
    if (!again) setTimeout(() => { if (part.open && content.dataset.has === version) load(part, true); }, 2000);
  } catch (problem) {
    content.textContent = typeof problem === "string" ? problem : "The operator does not answer.";
    delete content.dataset.has; // it is tried again with the next change
  }
}

function narrow() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  const rows = byID("rows");
  for (const row of rows.children) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
    if (!row.hidden) shown++;
  }
  byID("shown").textContent = words.length ? shown + " of " + rows.children.length + " shown" : "";
}

function span(seconds) {
  const s = Math.max(0, Math.round(seconds)), pair = (a, x, b, y) => a + x + (b ? " " + b + y : "");
  if (s < 60) return s + "s";
  if (s < 3600) return pair(Math.floor(s / 60), "m", s % 60, "s");
  if (s < 86400) return pair(Math.floor(s / 3600), "h", Math.floor(s % 3600 / 60), "m");
  return pair(Math.floor(s / 86400), "d", Math.floor(s % 86400 / 3600), "h");
}

function count() {
  for (const time of document.querySelectorAll("time[data-is]")) {
    const seconds = (Date.now() - new Date(time.dateTime)) / 1000;
    let text = span(seconds);
    if (time.dataset.is === "ago") text += " ago";
    if (time.dataset.is === "in") text = seconds < 0 ? "in " + span(-seconds) : "now";
    if (time.textContent !== text) time.textContent = text;
  }
  if (Date.now() - heard > silence) lost(); // it hangs
}

// copy puts a command on the clipboard. Where a browser does not allow that, it is selected.
function copy(code) {
  getSelection().selectAllChildren(code);
  navigator.clipboard?.writeText(code.textContent).then(() => {
    code.classList.add("copied");
    setTimeout(() => code.classList.remove("copied"), 2000);
  }, () => {});
}

filter.addEventListener("input", narrow);
addEventListener("click", (event) => { if (event.target.matches("code.copy")) copy(event.target); });
addEventListener("toggle", (event) => {
  if (!event.target.matches("details.more")) return;
  delete event.target.querySelector(".loaded").dataset.has; // opened again is asked again
  if (event.target.open) load(event.target);
}, true);
addEventListener("hashchange", () => { focusDetail = chosen() !== ""; refresh(); });
addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.target.matches("code.copy")) copy(event.target);
  if (event.key === "Escape" && chosen()) {
    const from = asked;
    location.hash = "";
    byID("m-" + from)?.querySelector("a")?.focus();
  }
  if (event.key === "/" && document.activeElement !== filter) { event.preventDefault(); filter.focus(); }
});
setInterval(count, 1000);
count();
refresh();
