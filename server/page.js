"use strict";
// The page arrives whole. After that the operator sends the parts that have changed, as HTML, and this script puts
// them in their places. Times are counted here, so that what does not change need not be sent.
const byID = (id) => document.getElementById(id);
const filter = byID("filter"), stale = byID("stale");
const silence = 15000; // milliseconds: the operator sends something every 5 seconds
const where = document.title.slice(byID("headline").textContent.length);
let source, heard = Date.now(), tried = 0, asked = "", focusDetail = false;

// chosen is the module in the address, which a person may have typed.
function chosen() {
  const name = location.hash.slice(1);
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

function connect() {
  if (source) source.close();
  asked = chosen();
  tried = Date.now();
  source = new EventSource("live" + (asked ? "?module=" + encodeURIComponent(asked) : ""));
  source.onmessage = (event) => {
    heard = Date.now();
    stale.hidden = true;
    apply(JSON.parse(event.data));
  };
  source.onerror = () => { // a stream that ends in good order is opened again at once
    setTimeout(() => { if (Date.now() - heard > 4000) lost(); }, 4000);
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, 2000);
  };
}

function lost() {
  if (!stale.hidden) return;
  stale.textContent = "Stale since " + new Date(heard).toLocaleTimeString() + ": the operator does not answer. This page reconnects automatically.";
  stale.hidden = false;
}

function apply(parts) {
  for (const [id, html] of Object.entries(parts)) become(byID(id), parse(html).firstElementChild);
  for (const part of document.querySelectorAll("details.more[open]")) load(part);
  const detail = byID("detail");
  if (focusDetail && !detail.hidden) { detail.focus(); focusDetail = false; }
  document.title = byID("headline").textContent + where;
  for (const row of byID("rows").children) row.classList.toggle("chosen", row.id === "m-" + asked); // its detail has its problems
  narrow();
  count();
}

function parse(html) {
  const holder = document.createElement("template");
  holder.innerHTML = html;
  return holder.content;
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

// load fills a part that a person has opened, unless it has this version already. The stream may be a second behind the
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
  if (Date.now() - heard > silence && Date.now() - tried > silence) { // half open: no error says so
    lost();
    connect();
  }
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
addEventListener("hashchange", () => { focusDetail = chosen() !== ""; connect(); });
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
connect();
